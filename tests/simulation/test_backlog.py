"""Updates that arrive faster than the server works: how many wait is in the table of rounds, and a note says so."""

from typing import Any

import pytest

from asyncfl.results.run_tables import rounds_table, seed_summary
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.seed_run import BACKLOG_NOTE, SeedRun

BUFFER, ROUNDS = 2, 12
ASYNCHRONOUS: dict[str, Any] = {
    "protocol": {"kind": "buffered", "rounds": ROUNDS, "buffer": BUFFER},
    "protocol.dispatch": {"kind": "constant", "in_flight": 4},
    "defence": {"detector": {"kind": "safl"}},
    "world": {"device": {"kind": "fixed", "s_per_sample": 0.01}},
    "evaluation": {"train_every": 0, "test_every": 0},
}
SLOW: dict[str, dict[str, Any]] = {
    "scores": {"world.evaluation_cost": 100.0},
    "judging": {"world.score_s": 5.0},
    "aggregation": {"world.aggregate_s": 5.0},
    "evaluation": {"world.evaluate_s": 5.0, "evaluation.test_every": 1},
    "link": {"world.downlink": {"bandwidth_bps": 1e9, "server_bandwidth_bps": 2e5}},
    "processors": {"world.processors": 1.0, "world.score_s": 1.0},
}


def run_of(scenario: Scenario, slow: str) -> SeedRun:
    return simulate_seed(scenario.override(ASYNCHRONOUS).override(SLOW[slow]), 0)


@pytest.mark.parametrize("slow", SLOW)
def test_updates_that_wait_are_counted_whatever_holds_the_server_up(scenario: Scenario, slow: str) -> None:
    run = run_of(scenario, slow)
    rounds, events = rounds_table(run).to_pandas(), run.events.to_pandas()
    arrived = events["time_s"][events["kind"] == "uploaded"].to_numpy()
    for version, time_s, waiting in rounds[["version", "time_s", "waiting_max"]].to_numpy()[1:]:
        # The server is never idle, so that most wait when it publishes: all that have arrived and no version has taken.
        before, until = ((arrived < time_s).sum(), (arrived <= time_s).sum())
        assert max(0, before - BUFFER * version) <= waiting <= until - BUFFER * (version - 1)
    long = int((rounds["waiting_max"] > 3 * BUFFER).sum())
    assert long >= ROUNDS - 1
    assert seed_summary(run)["noted"] == {BACKLOG_NOTE: long}


def test_a_server_that_keeps_up_has_no_backlog_and_no_note(scenario: Scenario) -> None:
    run = simulate_seed(scenario.override(ASYNCHRONOUS | {"world.evaluation_cost": 0.0}), 0)
    # Four equal devices send at once: two updates wait while the server asks for the scores of the other two.
    assert rounds_table(run).to_pandas()["waiting_max"].max() == 4 - BUFFER
    assert "noted" not in seed_summary(run)


def test_a_round_of_a_cohort_leaves_no_update_waiting(scenario: Scenario) -> None:
    run = simulate_seed(scenario.override({"protocol": {"kind": "sync", "rounds": 3}, "world.aggregate_s": 50.0}), 0)
    assert rounds_table(run).to_pandas()["waiting_max"].tolist() == [0] * 4
