"""Reports of clients in the trace: times worked out by hand, and reports that are refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from asyncfl.extras.live.client_messages import ClientEvent
from asyncfl.extras.live.clock import LiveTiming
from asyncfl.extras.live.reports import LiveEventLog, Reports
from asyncfl.learning import Training
from asyncfl.protocol.task_table import TaskTable
from asyncfl.simulation.action_executor import Traffic
from asyncfl.world.tap import Tap

DEADLINE = Training(lr=0.1, epochs=3, deadline_s=5.0)


class Desk:
    """Reports of one run in which client 2 is at task 7 since second 10."""

    def __init__(self, *, shape: bool = False, training: Training | None = None, now_s: float = 100.0) -> None:
        self.written: list[tuple[Any, ...]] = []
        recorder: Any = SimpleNamespace(seed=0, add=lambda *event: self.written.append(event))
        self.clock: Any = SimpleNamespace(now=0.0)
        self.event_log = LiveEventLog(recorder, self.clock)
        for version, time_s in enumerate((0.0, 10.5, 20.0)):
            self.clock.now = time_s
            self.event_log.version = version
        self.clock.now = now_s
        tasks = TaskTable()
        for client in range(1, 8):
            tasks.begin(client, 0)
        self.task = tasks.begin(2, 1)
        self.traffic = Traffic()
        self.ended_s: float | None = None
        scenario: Any = SimpleNamespace(training=training or Training(lr=0.1), world=SimpleNamespace(tap=Tap()))
        self.reports = Reports(self.event_log, tasks, self.traffic, scenario, LiveTiming(shape=shape))

    def place(self, *report: ClientEvent, arrived_s: float | None = None) -> list[tuple[Any, ...]]:
        """Time, kind, task, client, version then and version of the task, for each event that was written."""
        self.reports.place(2, self.task, 10.0, report, arrived_s, self.ended_s)
        self.written.sort(key=lambda event: event[0])
        return [(round(event[0], 9), event[1].value, *event[2:6]) for event in self.written]


def test_reported_events_are_placed_at_their_seconds_under_the_version_published_then() -> None:
    desk = Desk()
    placed = desk.place(
        ClientEvent(0.25, "downloaded", 24, 1), ClientEvent(0.5, "training_started"), ClientEvent(10.5, "trained")
    )
    assert placed == [
        (10.25, "downloaded", 7, 2, 0, 1),
        (10.5, "training_started", 7, 2, 1, 1),
        (20.5, "trained", 7, 2, 2, 1),
    ]
    assert [event[6:9] for event in desk.written] == [(-1, 24, 1), (-1, -1, -1), (-1, -1, -1)]
    assert desk.task.trained
    assert (desk.traffic.bytes_up, desk.traffic.bytes_down) == (0, 0)


def test_events_after_the_end_of_the_run_are_left_out() -> None:
    desk = Desk()
    desk.ended_s = 10.6
    told = (ClientEvent(0.5, "downloaded"), ClientEvent(0.6, "training_started"), ClientEvent(0.7, "trained"))
    assert [event[:2] for event in desk.place(*told)] == [(10.5, "downloaded"), (10.6, "training_started")]
    assert not desk.task.trained
    again = Desk()
    again.ended_s = 10.6
    again.place(ClientEvent(0.6, "trained"))
    assert again.task.trained


@pytest.mark.parametrize("shape", [False, True])
def test_an_update_that_arrives_after_the_end_over_a_real_link_counts_as_arrived(shape: bool) -> None:
    desk = Desk(shape=shape)
    desk.ended_s = 10.6
    placed = desk.place(
        ClientEvent(0.25, "downloaded", 24, 1), ClientEvent(4.5, "uploaded", 24, 1, "up"), arrived_s=14.5
    )
    arrived = [] if shape else [(10.6, "uploaded", 7, 2, 1, 1)]
    assert placed == [(10.25, "downloaded", 7, 2, 0, 1), *arrived]
