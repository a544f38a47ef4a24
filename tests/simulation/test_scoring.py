"""Requests for scores on the clock: times, traffic, eavesdropping."""

from typing import Any

from asyncfl.api import simulate
from asyncfl.protocol.event_query import select
from asyncfl.protocol.score_requests import NO_ANSWER, score_requests_of
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed

SCORED: dict[str, Any] = {
    "protocol": {"kind": "buffered", "rounds": 3, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 4}},
    "defence.detector": {"kind": "safl"},
    "world.downlink": {"latency_s": 0.5, "bandwidth_bps": 1e6},
    "evaluation.train_every": 0,
    "evaluation.test_every": 0,
}


def test_a_request_begins_when_its_buffer_has_been_collected_and_takes_both_ways(scenario: Scenario) -> None:
    run = simulate_seed(scenario.override(SCORED), 0)
    requests = score_requests_of(run.events)
    assert [request.making for request in requests] == [1, 2, 3]
    asked = select(run.events, kinds=["scores_requested"]).to_pylist()
    opened = select(run.events, kinds=["uploaded", "published"])["time_s"].to_pylist()
    for request, row in zip(requests, asked, strict=True):
        assert request.asked_s in opened
        # Three updates and three decoys down, six scores of 8 bytes up.
        assert request.asked == "6 models"
        links_s = 0.5 + 8 * row["bytes"] / 1e6 + 0.05 + 8 * 48 / 1e6
        assert request.ended_s - request.asked_s > links_s


def test_retransmissions_for_scoring_are_logged(scenario: Scenario) -> None:
    lossy = {"kind": "independent", "probability": 0.5}
    changes = SCORED | {"world.downlink": {"loss": lossy, "retransmissions": 50}}
    run = simulate_seed(scenario.override(changes), 0)
    again = select(run.events, kinds=["retransmitted"]).to_pylist()
    assert [row["client"] for row in again if row["detail"] == "scoring down"]
    assert all(row["task"] == -1 for row in again if row["detail"].startswith("scoring"))


def test_a_tap_on_scoring_holds_each_update_of_the_buffer_once(scenario: Scenario) -> None:
    run = simulate_seed(scenario.override(SCORED | {"world.tap": {"scoring": True}}), 0)
    heard = select(run.events, kinds=["overheard"]).to_pylist()
    assert sorted(row["task"] for row in heard if row["task"] >= 0) == sorted(
        select(run.events, kinds=["aggregated", "flagged"])["task"].to_pylist()
    )
    assert [row["detail"] for row in heard if row["task"] < 0] == ["scoring down", "scoring up"] * 3
    assert sum(run.traffic.overheard_up.values()) == 9
    both = simulate_seed(scenario.override(SCORED | {"world.tap": {"scoring": True, "uplink": True}}), 0)
    uplink = simulate_seed(scenario.override(SCORED | {"world.tap": {"uplink": True}}), 0)
    assert both.traffic.overheard_up == uplink.traffic.overheard_up


def test_the_ledger_counts_updates_overheard_in_scoring(scenario: Scenario) -> None:
    private = {"privacy": {"kind": "nbafl", "epsilon": 60, "clip_norm": 5.0, "exposures": 3}}
    run = simulate(scenario.override(SCORED | private | {"world.tap": {"scoring": True}}))
    rows = run.tables["ledger"].to_pylist()
    held = {row["client"]: row["releases"] for row in rows if row["adversary"] == "eavesdropper" and row["client"] >= 0}
    clients = run.tables["clients"].to_pylist()
    assert sum(held.values()) == 9
    assert all(held[row["client"]] == row["exposures_up"] for row in clients)


def test_nothing_is_sent_to_an_evaluator_that_is_offline(scenario: Scenario) -> None:
    away = {"kind": "alternating", "on_s": 3.0, "off_s": 1.0}
    # Every client is soon off after its update has come, for the buffer waits.
    slow = {"world.availability": away, "world.downlink": {"bandwidth_bps": 2e6}, "protocol.time_limit_s": 200.0}
    run = simulate_seed(scenario.override(SCORED | {"protocol.rounds": 30} | slow), 0)
    events = run.events.to_pandas()
    asked, told = (events[events["kind"] == kind].reset_index() for kind in ("scores_requested", "scored"))
    assert (asked["client"][: len(told)] == told["client"]).all()
    took = told["time_s"] - asked["time_s"][: len(told)]
    silent = told["detail"] == NO_ANSWER
    assert (took[~silent] > 0).all()
    assert (took[silent] == 0).any(), "no client was offline when asked"
    assert ((took[silent] > 0) & (took[silent] < 1.5)).any(), "no client went offline during a request"
    # What was broken off has no bytes, as with tasks: models and scores count where they were waited for to the end.
    (size,) = set(events["bytes"][events["kind"] == "upload_started"])
    tasks_down = events["bytes"][(events["kind"] == "downloaded")].sum()
    most = asked["bytes"][: len(told)][took > 0].sum()
    least = asked["bytes"][: len(told)][~silent].sum()
    assert least <= run.traffic.bytes_down - tasks_down <= most < asked["bytes"].sum()
    assert size * 4 <= asked["bytes"].min()
