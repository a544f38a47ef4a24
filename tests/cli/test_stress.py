"""`asyncfl stress`, on a grid of three federations."""

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from asyncfl.base.errors import ScenarioError
from asyncfl.cli import app
from asyncfl.extras.stress import stress_test as package_stress  # noqa: F401
from asyncfl.extras.stress.trials import Trial


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = (Trial("IID", turns=3), Trial("IID", "sign flip", 0.4, turns=4), Trial("shards", "IPM", 0.1, turns=3))
    monkeypatch.setattr(
        sys.modules["asyncfl.extras.stress.stress_test"], "stress_grid", lambda seeds, root: grid * seeds
    )


def stress(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["stress", *arguments], catch_exceptions=False, env={"COLUMNS": "80"})


def test_the_table_has_a_row_for_each_attack_and_partition() -> None:
    shown = stress("evidence").output
    for name in (
        "no attack",
        "sign flip",
        "IPM",
        "IID",
        "shards",
        "all",
        "honest banned",
        "judged, %",
        "unjudged, %",
        "points",
    ):
        assert name in shown
    says = "0 of 100 honest clients banned, in 0 of 3 federations: in at most 63.2 % of such federations (exact, 95 %)"
    assert says in " ".join(shown.split())


def test_json_holds_the_same_numbers() -> None:
    found = json.loads(stress("evidence", "--json", "--seeds", "2", "--root").stdout)
    assert (found["honest"], found["honest_banned"], found["federations"]) == (200, 0, 6)
    assert found["most_harmed"] == pytest.approx(1 - 0.05 ** (1 / 6))
    assert found["rows"][-1]["name"] == "all"


@pytest.fixture
def banned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function from options to the number of attackers that `evidence` bans in one federation a seed."""
    grid = (Trial("IID", "IPM", 0.1, noise="none", turns=8),)
    monkeypatch.setattr(
        sys.modules["asyncfl.extras.stress.stress_test"], "stress_grid", lambda seeds, root: grid * seeds
    )

    def run(*arguments: str) -> int:
        return int(json.loads(stress("evidence", "--json", *arguments).stdout)["rows"][-1]["attackers_banned"])

    return run


def test_fields_of_the_detector_and_strikes_can_be_set(banned: Callable[..., int]) -> None:
    assert banned() == 4
    assert banned("--set", "strikes.threshold=9", "--set", "strikes.window=9") == 0
    for change, says in (
        ("rule.kind=median", "must be a field of detector, strikes"),
        ("strikes=null", "not be null"),
        ("detector.deviations=-1", "detector.deviations: must be"),
    ):
        with pytest.raises(ScenarioError, match=says):
            banned("--set", change)


@pytest.mark.long
def test_the_number_of_processes_does_not_change_results(banned: Callable[..., int]) -> None:
    assert banned("--jobs", "2", "--seeds", "2") == 2 * banned()


def test_the_cost_is_said_before_the_test_begins() -> None:
    says = re.search(r"3 federations: about (\d+) CPU s", stress("evidence").stderr)
    assert says is not None
    assert 1 <= int(says[1]) <= 10


@pytest.mark.parametrize(
    ("named", "says"),
    [("evidense", "kind must be one of"), ("spectral", "was removed"), ("nope:Nope", "cannot import")],
)
def test_an_unknown_detector_is_refused(named: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        stress(named)
