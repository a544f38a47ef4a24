"""The course of tasks on the clock: in their order, and as long as their client is online."""

from __future__ import annotations

from asyncfl.federation import SeedRun
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed
from asyncfl.trace.query import select

AWAY = {
    "kind": "alternating",
    "on_s": {"kind": "exponential", "mean": 0.4},
    "off_s": {"kind": "exponential", "mean": 0.2},
}


def kinds(run: SeedRun) -> list[str]:
    return run.events["kind"].to_pylist()


def test_a_task_is_downloaded_trained_and_uploaded(scenario: Scenario) -> None:
    run = simulate_clock(scenario, 0)
    course = select(run.events, task=0).to_pylist()
    assert [row["kind"] for row in course] == [
        "dispatched",
        "download_started",
        "downloaded",
        "training_started",
        "trained",
        "upload_started",
        "uploaded",
        "aggregated",
    ]
    times = [row["time_s"] for row in course]
    assert times == sorted(times)


def test_clients_that_are_offline_come_back(scenario: Scenario) -> None:
    run = simulate_seed(scenario.override({"protocol.rounds": 8, "world.availability": AWAY}), 0)
    assert run.stopped == "all versions published"
    assert {"went_offline", "came_online"} <= set(kinds(run))
    assert run.fates["dropped_out"] > 0


def test_a_client_that_cannot_be_reached_is_given_no_task(scenario: Scenario) -> None:
    changes = {"protocol": {"kind": "buffered", "rounds": 20, "buffer": 2, "dispatch": {"kind": "continuous"}}}
    run = simulate_clock(scenario.override({**changes, "world.availability": AWAY}), 0)
    assert sum(run.fates.values()) == kinds(run).count("dispatched")
    unreached = [row for row in run.events.to_pylist() if row["kind"] == "went_offline" and row["task"] == -1]
    assert unreached, "everybody was online whenever asked"


def test_who_gives_up_in_the_middle_uploads_nothing(scenario: Scenario) -> None:
    run = simulate_clock(scenario.override({"world.dropout": 0.5}), 0)
    gave_up = select(run.events, kinds=["dropped_out"])["task"].to_pylist()
    assert len(gave_up) == run.fates["dropped_out"] > 0
    after = {row["kind"] for row in run.events.to_pylist() if row["task"] in gave_up}
    assert after == {"dispatched", "download_started", "downloaded", "training_started", "dropped_out"}
