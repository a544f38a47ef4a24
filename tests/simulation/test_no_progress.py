"""Runs without any arriving update end with a reason and complete tables."""

from typing import Any

import pytest

from asyncfl.scenario import Scenario
from asyncfl.server import machine
from asyncfl.simulation import simulate_clock

HARDLY = {"kind": "alternating", "on_s": 1e-6, "off_s": 1e12}
LOSSY = {"kind": "independent", "probability": 1 - 1e-9}
BUFFERED = {"kind": "buffered", "rounds": 3, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}


@pytest.mark.parametrize("protocol", [{"kind": "sync", "rounds": 3}, BUFFERED], ids=["sync", "buffered"])
@pytest.mark.parametrize(
    ("changes", "fate"),
    [
        ({"world.availability": HARDLY}, "timed_out"),
        ({"world.dropout": 1 - 1e-9}, "dropped_out"),
        ({"world.uplink.loss": LOSSY}, "lost_up"),
        ({"world.downlink.loss": LOSSY}, "lost_down"),
        ({"world.availability": HARDLY, "world.failure_detection": {"kind": "instant"}}, "dropped_out"),
    ],
    ids=["offline", "dropout", "uplink", "downlink", "instant"],
)
def test_a_run_to_which_nothing_comes_back_ends_with_its_reason(
    scenario: Scenario, protocol: dict[str, Any], changes: dict[str, Any], fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "LEAST_TASKS", 30)
    monkeypatch.setattr(machine, "TASKS_PER_CLIENT", 7)
    run = simulate_clock(scenario.override({"protocol": protocol, **changes}), 0)
    assert run.stopped == f"no update reached the server in the last 35 tasks (35 {fate})"
    assert [row["version"] for row in run.rounds] == [0]
    assert run.events["kind"].to_pylist()[-1] == "stopped"
    assert run.fates[fate] == 35
    assert sum(run.fates.values()) == run.fates[fate] + run.fates["unfinished"]


def test_a_run_without_progress_ends_at_its_time_limit(scenario: Scenario) -> None:
    hardly = {"kind": "alternating", "on_s": 1e-6, "off_s": 100.0}
    never = scenario.override({"world.availability": hardly, "protocol.time_limit_s": 1000.0})
    run = simulate_clock(never, 0)
    assert run.stopped == "time limit reached"
    assert run.rounds[-1]["version"] == 0
    assert sum(run.fates.values()) == run.fates["timed_out"] + run.fates["unfinished"]
