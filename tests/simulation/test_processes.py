"""Whole seeds on the clock: phases of tasks, order of events, and clients that go offline."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncfl.base.streams import Streams
from asyncfl.protocol import Server, Sync
from asyncfl.protocol.dispatch import OpenDeadline, OpenPoll
from asyncfl.protocol.event_query import select
from asyncfl.protocol.tasks import FATES, Tasks
from asyncfl.results.earlier_tasks import tasks_of_events
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed
from asyncfl.simulation.clock import Clock, Moment
from asyncfl.simulation.driver import Driver
from asyncfl.simulation.event_order import SERVER, EventOrder, Priority
from asyncfl.simulation.seed_run import SeedRun
from asyncfl.simulation.timeline_recorder import TimelineRecorder
from asyncfl.testing import server
from asyncfl.world import World

AWAY = {
    "kind": "alternating",
    "on_s": {"kind": "exponential", "mean": 0.4},
    "off_s": {"kind": "exponential", "mean": 0.2},
}


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
    sent = 4 * scenario.n_parameters
    assert [row["bytes"] for row in course] == [-1, sent, sent, -1, -1, sent, sent, -1]


def test_a_client_that_cannot_be_reached_is_given_no_task(scenario: Scenario) -> None:
    changes = {"protocol": {"kind": "buffered", "rounds": 20, "buffer": 2, "dispatch": {"kind": "continuous"}}}
    run = simulate_clock(scenario.override({**changes, "world.availability": AWAY}), 0)
    assert sum(run.fates.values()) == run.events["kind"].to_pylist().count("dispatched")
    unreached = [row for row in run.events.to_pylist() if row["kind"] == "went_offline" and row["task"] == -1]
    assert unreached, "every client was online when asked"


@pytest.mark.parametrize(
    ("detection", "detected_s", "fate"),
    [
        ({"kind": "instant"}, 5.0, "dropped_out"),
        ({"kind": "lease", "seconds": 2.0}, 7.0, "timed_out"),
        ({"kind": "lease", "seconds": 60.0}, 25.0, "dropped_out"),
    ],
    ids=["instant", "lease", "return"],
)
def test_a_client_that_vanishes_is_missed_when_its_lease_ends_or_it_is_back(
    federation: Callable[..., Driver], detection: dict[str, Any], detected_s: float, fate: str
) -> None:
    """All are at a task of 100 s from the start, vanish once within 10 s, and are back 20 s later."""
    world = {
        "device": {"kind": "fixed", "s_per_sample": 1.0},
        "availability": {"kind": "alternating", "on_s": 10.0, "off_s": 20.0},
        "failure_detection": detection,
    }
    driver = federation({"kind": "buffered", "rounds": 1, "buffer": 1, "time_limit_s": 9.0 + detected_s}, world)
    driver.run()
    tasks = Tasks.of(tasks_of_events(driver.clock.recorder.table()))
    lost = tasks.only(tasks.fate != FATES.index("unfinished"))
    assert len(lost)
    assert {FATES[one] for one in lost.fate} == {fate}
    assert lost.settled_s - lost.left_s == pytest.approx(np.full(len(lost), detected_s - 5.0))


def test_cohorts_are_as_large_as_they_are_to_be_while_enough_can_be_reached(federation: Callable[..., Driver]) -> None:
    world = {
        "device": {"kind": "fixed", "s_per_sample": 1e-4},
        "availability": {"kind": "alternating", "on_s": 1.0, "off_s": 1.0},
    }
    driver = federation(Sync(rounds=30, participants=4, open=OpenDeadline(seconds=5.0)), world, clients=40)
    assert driver.run() == "all versions published"
    events = driver.clock.recorder.table()
    begun = Counter(select(events, kinds=["dispatched"])["base_version"].to_pylist())
    assert set(begun.values()) == {4}
    assert driver.server.tasks.withdrawn > 0


def test_polled_rounds_agree_with_a_loop_over_devices_of_constant_speed(federation: Callable[..., Driver]) -> None:
    """Eight clients of 100 samples and links that take no time: client i trains for 1 + .37 i seconds."""
    s_per_sample = [0.01 + 0.0037 * client for client in range(8)]
    opening = OpenPoll(at_least=3, poll_s=0.25, last_waits=True)
    protocol = Sync(rounds=12, open=opening, late="carry", per_client=1)
    free = {"latency_s": 0.0, "bandwidth_bps": math.inf}
    world = {"device": {"kind": "listed", "s_per_sample": s_per_sample}, "uplink": free, "downlink": free}
    driver = federation(protocol, world, clients=8)
    assert driver.run() == "all versions published"
    published = select(driver.clock.recorder.table(), kinds=["published"])["time_s"].to_pylist()[1:]
    now, expected, ends = 0.0, [], dict[int, float]()
    for version in range(12):
        ends |= {client: now + 100 * s_per_sample[client] for client in range(8) if client not in ends}
        needed = len(ends) if version == 11 else 3
        ready, looks = sorted(ends.values())[needed - 1], 0
        while now + 0.25 * looks < ready - 1e-9:
            looks += 1
        now += 0.25 * looks
        ends = {client: end for client, end in ends.items() if end > now + 1e-9}
        expected.append(now)
    assert published == pytest.approx(expected)


def test_a_client_that_drops_out_uploads_nothing(scenario: Scenario) -> None:
    run = simulate_clock(scenario.override({"world.dropout": 0.5}), 0)
    gave_up = select(run.events, kinds=["dropped_out"])["task"].to_pylist()
    assert len(gave_up) == run.fates["dropped_out"] > 0
    after = {row["kind"] for row in run.events.to_pylist() if row["task"] in gave_up}
    assert after == {"dispatched", "download_started", "downloaded", "training_started", "dropped_out"}


LOST = {"kind": "independent", "probability": 1.0}


def times(run: SeedRun, kind: str, **conditions: Any) -> list[float]:
    return list(select(run.events, kinds=[kind], **conditions)["time_s"].to_pylist())


def sending_s(run: SeedRun, bandwidth_bps: float) -> float:
    (size,) = set(select(run.events, kinds=["upload_started"])["bytes"].to_pylist())
    return float(8 * size / bandwidth_bps)


def test_retransmissions_are_logged_when_they_begin(scenario: Scenario) -> None:
    link = {"bandwidth_bps": 1e5, "loss": LOST, "retransmissions": 2, "retransmission_timeout_s": 3.0}
    limits = {"protocol.rounds": 1, "protocol.time_limit_s": 60}
    run = simulate_clock(scenario.override({"world.uplink": link, "world.tap.uplink": True, **limits}), 0)
    began, sent = times(run, "upload_started", task=0)[0], sending_s(run, 1e5)
    assert times(run, "overheard", task=0) == pytest.approx([began + sent])
    assert times(run, "retransmitted", task=0) == pytest.approx([began + sent + 3, began + 2 * sent + 6])
    assert times(run, "lost", task=0) == pytest.approx([began + 3 * sent + 9])
    again = select(run.events, kinds=["retransmitted"], task=0)
    assert again["attempt"].to_pylist() == [2, 3]
    assert set(again["bytes"].to_pylist()) == set(select(run.events, kinds=["upload_started"])["bytes"].to_pylist())
    assert set(again["detail"].to_pylist()) == {"up"}


def test_messages_overheard_before_a_client_went_offline_count(scenario: Scenario) -> None:
    # The message is on the air in a moment, but takes longer to arrive than anybody stays.
    away = {"kind": "alternating", "on_s": 5.0, "off_s": 1.0}
    changes = {"world.uplink": {"latency_s": 100.0}, "world.availability": away, "protocol.time_limit_s": 40}
    run = simulate_clock(scenario.override({**changes, "world.tap.uplink": True}), 0)
    assert run.fates["dropped_out"] > 0
    assert times(run, "uploaded") == []
    assert sum(run.traffic.overheard_up.values()) == len(times(run, "overheard")) > 0


def test_offline_clients_retransmit_nothing(scenario: Scenario) -> None:
    away = {"kind": "alternating", "on_s": 5.0, "off_s": 1.0}
    link = {"loss": LOST, "retransmissions": 100, "retransmission_timeout_s": 1.0}
    changes = {"world.uplink": link, "world.availability": away, "protocol.time_limit_s": 30}
    run = simulate_clock(scenario.override(changes), 0)
    for task in set(select(run.events, kinds=["dropped_out"])["task"].to_pylist()):
        (gone,) = times(run, "went_offline", task=task)
        assert all(time_s <= gone for time_s in times(run, "retransmitted", task=task))
    assert len(times(run, "retransmitted")) > len(times(run, "dropped_out")) > 0


@pytest.mark.parametrize(("at", "expected"), [("sender", 1.0), ("link", 0.7), ("receiver", 0.4)])
def test_losses_before_the_tap_lower_the_exposure(scenario: Scenario, at: str, expected: float) -> None:
    """One packet an upload, 60 % of them lost and not sent again."""
    link = {"mtu_bytes": 10**6, "loss": {"kind": "independent", "probability": 0.6}, "retransmissions": 0}
    changes = {"world.uplink": link, "world.tap": {"uplink": True, "at": at}, "protocol.rounds": 100}
    run = simulate_clock(scenario.override(changes), 0)
    sent, arrived = (len(times(run, kind)) for kind in ("upload_started", "uploaded"))
    held = set(select(run.events, kinds=["overheard"])["task"].to_pylist())
    assert sent >= 400
    # Four standard deviations of a binomial number.
    assert len(held) == pytest.approx(expected * sent, abs=4 * (expected * (1 - expected) * sent) ** 0.5)
    received = set(select(run.events, kinds=["uploaded"])["task"].to_pylist())
    assert arrived == len(received) < len(held) or at == "receiver"
    assert received == held if at == "receiver" else received < held


@pytest.mark.parametrize("processors", [None, 2.0])
def test_a_client_that_goes_offline_in_training_has_sent_nothing(scenario: Scenario, processors: float | None) -> None:
    away = {"kind": "alternating", "on_s": {"kind": "exponential", "mean": 2.0}, "off_s": 1.0}
    changes = {"world.availability": away, "protocol.time_limit_s": 60, "world.processors": processors}
    events = simulate_clock(scenario.override({**changes, "protocol.rounds": 20}), 0).events
    assert set(select(events, kinds=["training_started"])["bytes"].to_pylist()) == {-1}
    last: dict[int, str] = {}
    gone = 0
    for row in events.to_pylist():
        if row["kind"] == "went_offline" and last.get(row["task"]) == "training_started":
            assert (row["bytes"], row["attempt"]) == (-1, -1)
            gone += 1
        last[row["task"]] = row["kind"]
    assert gone


def test_time_is_the_slowest_client_of_each_round(scenario: Scenario) -> None:
    links = {"downlink": {"latency_s": 0.25}, "uplink": {"latency_s": 0.5}}
    world = {"device": {"kind": "fixed", "s_per_sample": 0.01}, **links}
    run = simulate_seed(scenario.override({"world": world}), 0)
    # 20 samples of 10 ms, and both latencies: links have no limit but those.
    assert [row["time_s"] for row in run.rounds] == pytest.approx([0.0, 0.95, 1.9, 2.85])


def test_the_clock_alone_has_the_same_events_as_the_training(scenario: Scenario) -> None:
    lossy = scenario.override(
        {
            "world.uplink.loss": {"kind": "independent", "probability": 0.3},
            "world.uplink.retransmissions": 1,
            "world.tap": {"uplink": True, "downlink": True, "packet_loss": 0.1},
        }
    )
    trained, timed = simulate_seed(lossy, 0), simulate_clock(lossy, 0)
    assert trained.events.to_pandas().equals(timed.events.to_pandas())
    assert trained.traffic == timed.traffic
    assert timed.trained == 0


def test_nbafl_clips_to_the_median_and_both_sides_add_their_noise(scenario: Scenario) -> None:
    private = scenario.override(
        {"protocol.rounds": 4, "privacy": {"kind": "nbafl", "epsilon": 60, "exposures": 1, "constant": 1.25}}
    )
    run = simulate_seed(private, 0)
    row = run.rounds[1]
    c = 1.25 * np.sqrt(2 * np.log(1.25 / 0.01))
    assert row["sigma_u"] == pytest.approx(c * 2 * row["clip_norm"] / (20 * 60))
    # T = 4 rounds are more than L sqrt(N) = 2.24 uploads' worth of noise.
    assert row["sigma_d"] == pytest.approx(2 * c * row["clip_norm"] * np.sqrt(16 - 5) / (20 * 5 * 60))


@pytest.mark.parametrize(
    "protocol",
    [
        {"kind": "sync", "rounds": 5},
        {"kind": "buffered", "rounds": 5, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}},
        {"kind": "fedasync", "rounds": 5, "in_flight": 3},
        {"kind": "fedbuff", "rounds": 5, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}},
    ],
)
def test_every_protocol_learns(scenario: Scenario, protocol: dict[str, Any]) -> None:
    run = simulate_seed(scenario.override({"protocol": protocol}), 0)
    synchronous = protocol["kind"] == "sync"
    assert (run.stopped, run.rounds[-1]["version"]) == ("all versions published", 5)
    assert run.rounds[-1]["train_loss"] < run.rounds[0]["train_loss"]
    assert (max(row["staleness_max"] for row in run.rounds) > 0) != synchronous
    assert run.trained == run.used == run.fates["aggregated"]
    if synchronous:
        assert [row["participants"] for row in run.rounds] == [0, 5, 5, 5, 5, 5]


@pytest.fixture
def machine() -> Server:
    return server()


def clock_of(machine: Server, **world: Any) -> Clock:
    return Clock(machine, World.model_validate(world).start(2, Streams(0)), TimelineRecorder(0), lambda message: None)


def test_events_of_one_time_happen_in_their_explicit_order(machine: Server) -> None:
    """By priority, then by task; the order of scheduling decides only between events of one task."""
    clock, happened = clock_of(machine), list[str]()
    second, first = EventOrder(Priority.TASK, 7), EventOrder(Priority.TASK, 4)
    for name, delay_s, order in (
        ("limit", 2.0, EventOrder(Priority.TIME_LIMIT)),
        ("c", 2.0, second),
        ("a", 1.0, second),
        ("d", 2.0, second),
        ("b", 2.0, first),
        ("offline", 2.0, EventOrder(Priority.PRESENCE, 9)),
    ):
        clock.later(delay_s, order, lambda name: happened.append(f"{name} at {clock.now:g}"), name)
    run(clock)
    assert happened == ["a at 1", "offline at 2", "b at 2", "c at 2", "d at 2", "limit at 2"]


def test_a_call_comes_at_its_time_despite_rounding(machine: Server) -> None:
    """0.61 + (1.82 - 0.61) is less than 1.82: by the sum the client would not have gone offline yet."""
    clock, called = clock_of(machine), list[float]()
    assert 0.61 + (1.82 - 0.61) < 1.82
    clock.later(0.61, SERVER, clock.at, Moment(1.82, SERVER), lambda: called.append(clock.now))
    run(clock)
    assert called == [1.82]


def run(clock: Clock) -> None:
    while clock.goes_on:
        clock.step()
