"""`asyncfl stress`, on a grid of three federations."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from asyncfl.base.errors import ScenarioError
from asyncfl.cli import app
from asyncfl.testing import stress as package_stress  # noqa: F401
from asyncfl.testing.trials import Trial


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    grid = (Trial("IID", turns=3), Trial("IID", "sign flip", 0.4, turns=4), Trial("shards", "IPM", 0.1, turns=3))
    monkeypatch.setattr(
        sys.modules["asyncfl.testing.stress"], "stress_grid", lambda repeats, root, seeds: grid * repeats * seeds
    )


def stress(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["stress", *arguments], catch_exceptions=False, env={"COLUMNS": "80"})


def test_the_table_has_a_row_for_each_attack_and_partition() -> None:
    shown = stress("evidence").output
    for name in ("no attack", "sign flip", "IPM", "IID", "shards", "all", "honest banned", "unjudged, %", "points"):
        assert name in shown
    says = "0 of 100 honest clients banned, in 0 of 3 federations: in at most 63.2 % of such federations (exact, 95 %)"
    assert says in " ".join(shown.split())


def test_json_holds_the_same_numbers() -> None:
    found = json.loads(stress("evidence", "--json", "--repeats", "2", "--root").output)
    assert (found["honest"], found["honest_banned"], found["federations"]) == (200, 0, 6)
    assert found["most_harmed"] == pytest.approx(1 - 0.05 ** (1 / 6))
    assert found["rows"][-1]["name"] == "all"


@pytest.mark.parametrize(("named", "says"), [("spectrall", "kind must be one of"), ("nope:Nope", "cannot import")])
def test_an_unknown_detector_is_refused(named: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        stress(named)
