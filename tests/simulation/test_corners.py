"""Moments at which two things happen at once, and runs that come before others."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.federation import round_recorder as rounds_module
from asyncfl.federation.phases import MessageEvent
from asyncfl.federation.tasks_in_flight import TaskInFlight
from asyncfl.messages import ClientGone, ClientIdle, Collect, Fate
from asyncfl.privacy.upload_records import Upload
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns, prepared, run, simulate_clock, simulate_seed
from asyncfl.simulation.driver import Driver
from asyncfl.simulation.task_process import TaskProcess
from asyncfl.simulation.training import TrainingOnDemand
from asyncfl.simulation.transfers import Transfers
from asyncfl.trace import Kind
from asyncfl.trace.query import select

MEASURED: dict[str, Any] = {
    "world.tap": {"uplink": True},
    "privacy": {
        "kind": "nbafl",
        "epsilon": 60.0,
        "clip_norm": 5.0,
        "exposures": {"kind": "measured", "replicates": 2},
        "stop_at": {"epsilon": 90.0, "accountant": "naive"},
    },
}


class Asked(SimulatedRuns):
    """Counts what it is asked, and says that clients are overheard once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def most_overheard(self, scenario: Scenario, seed: int) -> int:
        self.asked += 1
        return 1


def test_runs_that_come_before_are_asked_of_whom_the_caller_names(scenario: Scenario) -> None:
    measured = scenario.override(MEASURED)
    for begins in (prepared, simulate_seed, simulate_clock):
        prior = Asked()
        begins(measured, 0, prior=prior)  # type: ignore[operator]
        assert prior.asked == 2
    assert prepared(measured, 0).resolved.calibration == (3, 3)
    alone, given = simulate_clock(measured, 0), simulate_clock(measured, 0, Asked())
    assert alone.spent is not None
    assert given.spent is not None
    assert len(given.spent) == 5 > len(alone.spent), "less noise is asked for where less is overheard"


def test_a_run_that_comes_before_is_made_once(scenario: Scenario) -> None:
    runs = SimulatedRuns()
    first: Sequence[Upload] = runs.uploads(scenario, 0)
    assert runs.uploads(scenario, 0) is first
    assert runs.uploads(scenario, 1) is not first
    assert sorted(one.task for one in first) == list(range(15))
    assert runs.most_overheard(scenario, 0) == 0, "nobody listens"
    assert runs.most_overheard(scenario.override({"world.tap.uplink": True}), 0) == 3


def test_a_seed_without_budgets_spends_none_and_is_recorded_where_that_is_asked_for(scenario: Scenario) -> None:
    timed, plain = simulate_clock(scenario, 0), simulate_seed(scenario, 0)
    assert (timed.spent, timed.recording, plain.spent, plain.recording) == (None,) * 4
    assert simulate_seed(scenario.override({"evaluation.record": "digests"}), 0).recording is not None


def test_a_seed_tells_what_it_began_with_came_to_and_took(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    times = iter([1.0, 3.5, 10.0])
    monkeypatch.setattr(run, "time", SimpleNamespace(perf_counter=times.__next__))
    monkeypatch.setattr(rounds_module, "time", SimpleNamespace(perf_counter=count().__next__))
    with caplog.at_level(logging.INFO, logger="asyncfl"):
        seed = simulate_seed(scenario, 0)
    assert seed.seconds == {"preparation": 2.5, "training": seed.seconds["training"], "evaluation": 4, "total": 9.0}
    first, last = (record.getMessage() for record in caplog.records if record.name == run.__name__)
    assert first.startswith("seed 0: 5 clients hold 100 samples of ")
    assert last.startswith("seed 0: all versions published after 3 versions, 15 tasks trained; preparation 2.50 s, ")
    assert last.endswith(" s, evaluation 4.00 s, total 9.00 s")
    monkeypatch.setattr(run, "time", SimpleNamespace(perf_counter=iter([5.0, 7.0]).__next__))
    assert simulate_clock(scenario, 0).seconds == {"total": 2.0}


@pytest.mark.parametrize(
    ("resent_at_s", "overheard", "told"),
    [((1.0,), False, [2.0, 3.0]), ((), True, [2.0, 3.0]), ((1.0,), True, [2.0, 3.0]), ((), False, [])],
)
def test_what_begins_as_its_client_goes_offline_is_still_told(
    resent_at_s: tuple[float, ...], overheard: bool, told: list[float]
) -> None:
    at: list[float] = []
    clock: Any = SimpleNamespace(
        now=4.0, later=lambda s, do: at.append(s), world=SimpleNamespace(next_change=lambda client, now_s: 7.0)
    )
    transfers: Any = SimpleNamespace(clock=clock)
    marks = [MessageEvent(at_s, Kind.RETRANSMITTED) for at_s in (2.0, 3.0, 3.5)]
    transfer = SimpleNamespace(resent_at_s=resent_at_s, overheard=overheard)
    Transfers._mark(transfers, 1, SimpleNamespace(transfer=transfer, events=lambda: marks), print)  # type: ignore[arg-type]
    assert at == told


def steps_of(generator: Any) -> tuple[list[Any], Any]:
    """What it waits for, and its value."""
    found: list[Any] = []

    def watched() -> Iterator[Any]:
        found.append((yield from generator))

    return list(watched()), found[0]


PHASE: Any = SimpleNamespace(patience_s=3.0, duration_s=9.0, given_up=lambda *how: ("given up", *how))


@pytest.mark.parametrize("offline_s", [13.0, 20.0])
def test_who_gives_up_as_it_goes_offline_has_given_up(offline_s: float) -> None:
    """After 3 s, at second 13: whether on a shared link or on shared processors."""
    until: list[float] = []
    clock: Any = SimpleNamespace(now=10.0, world=SimpleNamespace(next_change=lambda *_: offline_s))

    def share(task: Any, sending: Any, until_s: float) -> Any:
        until.append(until_s)
        clock.now = until_s
        yield "on the link"
        return 5, 2

    def work(alone_s: float, until_s: float) -> Any:
        until.append(until_s)
        clock.now = until_s
        yield alone_s
        return False

    workers = SimpleNamespace(processors=SimpleNamespace(work=work))
    process: Any = SimpleNamespace(clock=clock, transfers=SimpleNamespace(share=share), workers=workers)
    task = TaskInFlight(0, 1, 0)
    found = steps_of(TaskProcess._shares(process, task, PHASE, None))  # type: ignore[arg-type]
    assert found == (["on the link"], (("given up", 3.0, (5, 2)), True))
    clock.now = 10.0
    assert steps_of(TaskProcess._computes(process, task, PHASE)) == ([9.0], (("given up", 3.0), True))
    assert until == [13.0, 13.0]


def test_of_a_client_that_goes_offline_first_it_is_told_what_had_left() -> None:
    told: list[Any] = []

    def share(task: Any, sending: Any, until_s: float) -> Any:
        yield until_s
        return 5, 2

    def work(alone_s: float, until_s: float) -> Any:
        yield until_s
        return False

    process: Any = SimpleNamespace(
        clock=SimpleNamespace(now=10.0, world=SimpleNamespace(next_change=lambda *_: 12.5)),
        transfers=SimpleNamespace(share=share, traffic=SimpleNamespace(count=lambda *sent: told.append(sent))),
        workers=SimpleNamespace(processors=SimpleNamespace(work=work)),
        _went_offline=lambda task, *sent: told.append(sent),
    )
    sending: Any = SimpleNamespace(way="up")
    task = TaskInFlight(0, 1, 0)
    assert steps_of(TaskProcess._shares(process, task, PHASE, sending)) == ([12.5], (PHASE, False))
    assert steps_of(TaskProcess._computes(process, task, PHASE)) == ([12.5], (PHASE, False))
    assert told == [(5, "up"), (5, 2), (-1, -1)]


@pytest.mark.parametrize(
    ("detected_s", "back_s", "returns_with", "later", "told"),
    [
        (5.0, 9.0, False, [], [ClientGone(5.0, 1, 0, Fate.DROPPED_OUT)]),
        (7.0, 9.0, False, [2.0], [ClientGone(5.0, 1, 0, Fate.TIMED_OUT)]),
        (9.0, 9.0, True, [], []),
        (7.0, math.inf, False, [2.0], [ClientGone(5.0, 1, 0, Fate.TIMED_OUT)]),
    ],
)
def test_the_server_learns_of_who_vanished_at_once_by_the_lease_or_on_its_return(
    detected_s: float, back_s: float, returns_with: bool, later: list[float], told: list[Any]
) -> None:
    """What is put off happens at once here: the clock stands at second 5."""
    waited: list[float] = []
    returned: list[Any] = []
    messages: list[Any] = []
    noted: list[Any] = []

    def put_off(delay_s: float, do: Callable[[], None]) -> None:
        waited.append(delay_s)
        do()

    process: Any = TaskProcess.__new__(TaskProcess)
    process.clock = SimpleNamespace(
        now=5.0,
        stopped=False,
        world=SimpleNamespace(detected_s=lambda *_: detected_s, next_change=lambda *_: back_s),
        start=lambda steps: None,
        later=put_off,
        tell=messages.append,
        record_task=lambda kind, task, detail: noted.append((kind, detail)),
    )
    process.tasks = {0: "in flight"}
    process._return = lambda client, task=None: returned.append((client, task))
    task = TaskInFlight(0, 1, 0)
    process._vanished(task)
    assert returned == [(1, task if returns_with else None)]
    assert (waited, messages) == (later, told)
    assert noted == ([(Kind.DROPPED_OUT, "offline")] if detected_s == 5.0 else [])
    process._ended(task, Fate.LOST_UP)
    assert messages[len(told) :] == [ClientGone(5.0, 1, 0, Fate.LOST_UP), ClientIdle(5.0, 1)]


@pytest.mark.parametrize("processors", [None, 2.0])
def test_who_goes_offline_while_it_trains_has_sent_nothing(scenario: Scenario, processors: float | None) -> None:
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


def test_without_training_updates_are_empty_and_tell_no_loss() -> None:
    tasks: Any = SimpleNamespace(collect=lambda numbers: [TaskInFlight(number, 0, 0, epochs=2) for number in numbers])
    nothing: Any = None
    training = TrainingOnDemand(None, nothing, tasks, 8)
    found = training.collect(1.5, Collect((4, 7)))
    assert (found.time_s, found.tasks, found.models.shape, found.losses.tolist()) == (1.5, (4, 7), (2, 0), [0.0, 0.0])
    assert found.work is not None
    assert (found.work.tolist(), training.trained) == ([0.25, 0.25], 0)
    assert np.array_equal(found.models, np.empty((2, 0), np.float32))


@pytest.mark.parametrize(
    ("world", "evaluated"),
    [
        ({"evaluate_s": 2.0, "evaluate_beside": True, "processors": 1.0}, [2.0]),
        ({"evaluate_s": 2.0, "evaluate_beside": True}, []),
        ({"evaluate_s": 2.0, "processors": 1.0}, []),
        ({"processors": 1.0}, []),
    ],
)
def test_only_processors_that_are_shared_are_kept_busy_by_evaluations(
    federation: Callable[..., Driver], world: dict[str, Any], evaluated: list[float]
) -> None:
    protocol = {"rounds": 3, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}
    driver, found = federation(protocol, world), list[float]()
    evaluate = driver._evaluate
    driver._evaluate = lambda seconds, before: found.append(seconds) or evaluate(seconds, before)  # type: ignore[method-assign, func-returns-value]
    assert driver.run() == "all versions published"
    assert found == evaluated
