"""A user-defined scheme has everything that the built-in ones have: run, ledger, stop_at, flags, notes, faults."""

from pathlib import Path
from typing import Any

import pytest

from asyncfl.api import simulate
from asyncfl.base.errors import ScenarioError
from asyncfl.privacy.accounting import MechanismEvent, epsilons_of
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario

KIND = {"kind": "own_scheme:Halving"}
BUFFERED = {"kind": "buffered", "rounds": 6, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}


@pytest.fixture(autouse=True)
def _user_module_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


def run_of(scenario: Scenario, privacy: dict[str, Any], **changes: Any) -> Run:
    return simulate(scenario.override({"privacy": {**KIND, **privacy}, **changes}))


def of_server(run: Run) -> Any:
    ledger = run.tables["ledger"].to_pandas()
    return ledger[(ledger["holder"] == "client") & (ledger["adversary"] == "server")]


def test_its_noise_appears_in_rounds_and_ledger(scenario: Scenario) -> None:
    run = run_of(scenario, {"server_std": 0.25})
    rounds = run.tables["rounds"].to_pandas().iloc[1:]
    assert rounds["sigma_u"].tolist() == [4.0, 2.0, 1.0]
    assert rounds["sigma_d"].tolist() == [0.25] * 3
    assert rounds["clip_norm"].tolist() == [0.5] * 3
    spent = epsilons_of([MechanismEvent("gaussian", 4.0 / 2**turn) for turn in range(3)], 1e-5)
    rows = of_server(run)
    assert rows["exact_epsilon"].tolist() == pytest.approx([spent.exact] * 5)
    assert rows["basic_epsilon"].tolist() == pytest.approx([spent.basic] * 5)
    assert set(rows["status"]) == {"proven"}
    assert rows["naive_epsilon"].tolist() == [3.0] * 5


def test_its_flags_and_notes_are_reported(scenario: Scenario) -> None:
    run = run_of(scenario, {})
    assert set(of_server(run)["flags"]) == {"noise halves with each task"}
    assert "z begins at 8" in run.summary["notes"]


@pytest.mark.parametrize("protocol", [{"kind": "sync", "rounds": 6}, BUFFERED], ids=["sync", "buffered"])
def test_clients_stop_at_a_budget_for_its_noise(scenario: Scenario, protocol: dict[str, Any]) -> None:
    two, three = (float(exact_epsilon(sum(4.0**turn / 16 for turn in range(n)), 1e-5)) for n in (2, 3))
    run = run_of(scenario, {"stop_at": {"epsilon": (two + three) / 2}}, protocol=protocol)
    rows = of_server(run)
    assert rows["releases"].max() == 2
    assert rows["exact_epsilon"].max() == pytest.approx(two)
    if protocol["kind"] == "sync":
        assert run.summary["seeds"]["0"]["stopped"] == "every client has spent its budget"


def test_its_faults_are_reported(scenario: Scenario) -> None:
    with pytest.raises(ScenarioError, match=r"privacy\.z: must bear the rounds"):
        scenario.override({"privacy": KIND, "protocol.rounds": 11})
    with pytest.raises(ScenarioError, match="no client could upload even once"):
        scenario.override({"privacy": {**KIND, "stop_at": {"epsilon": 0.1}}})
