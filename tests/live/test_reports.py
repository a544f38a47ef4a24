"""Where what clients tell of stands in the trace and in the traffic: times, bytes and refusals worked out by hand."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from asyncfl.federation.tasks_in_flight import TasksInFlight
from asyncfl.federation.traffic import Traffic
from asyncfl.learning import Training
from asyncfl.live.live_event_log import LiveEventLog
from asyncfl.live.members import Member
from asyncfl.live.reports import Reports
from asyncfl.live.vocabulary import Noted
from asyncfl.live.wire import WireError
from asyncfl.messages import Collect, Dispatch
from asyncfl.trace import Kind

DEADLINE = Training(lr=0.1, epochs=3, deadline_s=5.0)


class Desk:
    """Reports of one run in which client 2 is at task 7 since second 10, and was asked for scores at second 30."""

    def __init__(self, *, shape: bool = False, training: Training | None = None, now_s: float = 100.0) -> None:
        self.written: list[tuple[Any, ...]] = []
        recorder: Any = SimpleNamespace(add=lambda *event: self.written.append(event))
        self.clock: Any = SimpleNamespace(now=0.0)
        self.event_log = LiveEventLog(recorder, self.clock, lambda: 0.0)
        for version, time_s in enumerate((0.0, 10.5, 20.0)):
            self.clock.now = time_s
            self.event_log.version = version
        self.clock.now = now_s
        tasks = TasksInFlight()
        tasks.begin(Dispatch(4, 1, 0))
        self.member = Member(2, "ann", 20, task=tasks.begin(Dispatch(7, 2, 1)), sent_s=10.0, at_s=10.0, asked_s=30.0)
        self.executor: Any = SimpleNamespace(
            stopped=None, server=SimpleNamespace(validator=SimpleNamespace(time_s=10.6)), tasks=tasks, traffic=Traffic()
        )
        self.reports = Reports(self.executor, self.event_log, training or Training(lr=0.1), shape=shape)

    def place(self, number: int, *report: Noted, arrived_s: float | None = None) -> list[tuple[Any, ...]]:
        """Time, kind, task, client, version then and version of the task, for each event that was written."""
        self.reports.place(self.member, number, report, arrived_s)
        self.event_log.flush(float("inf"))
        return [(round(event[0], 9), event[1].value, *event[2:6]) for event in self.written]


def test_a_task_that_is_told_of_is_placed_at_its_seconds_under_the_version_that_was_out() -> None:
    desk = Desk()
    placed = desk.place(7, Noted(0.25, "downloaded", 24, 1), Noted(0.5, "training_started"), Noted(10.5, "trained"))
    assert placed == [
        (10.25, "downloaded", 7, 2, 0, 1),
        (10.5, "training_started", 7, 2, 1, 1),
        (20.5, "trained", 7, 2, 2, 1),
    ]
    assert [event[6:9] for event in desk.written] == [(-1, 24, 1), (-1, -1, -1), (-1, -1, -1)]
    assert desk.member.task is not None
    assert desk.member.task.trained
    assert desk.member.at_s is None
    assert (desk.executor.traffic.bytes_up, desk.executor.traffic.bytes_down) == (0, 0)
    assert not desk.reports.ahead


def test_half_of_what_a_message_took_is_before_the_client_had_what_it_was_sent() -> None:
    """15 s passed and the client knows of 11 of them: it had the task 2 s after it was sent."""
    desk = Desk()
    placed = desk.place(7, Noted(1.0, "trained"), Noted(11.0, "uploaded"), arrived_s=25.0)
    assert [(event[0], event[1]) for event in placed] == [(13.0, "trained"), (25.0, "uploaded")]


def test_a_shaped_client_tells_the_worlds_own_times_and_bytes() -> None:
    desk = Desk(shape=True)
    placed = desk.place(
        7,
        Noted(1.0, "downloaded", 300, 1),
        Noted(1.5, "lost", 40),
        Noted(2.0, "retransmitted", 50),
        Noted(3.0, "upload_started", 60),
        Noted(4.0, "sent", 5, detail="up"),
        Noted(4.5, "sent", 6, detail="down"),
        Noted(5.0, "uploaded", 1000, 1),
        Noted(6.0, "went_offline", 7, detail="down"),
        arrived_s=25.0,
    )
    assert [event[0] for event in placed] == [11.0, 11.5, 12.0, 13.0, 16.0, 25.0]
    assert [event[1] for event in placed[-2:]] == ["went_offline", "uploaded"], "an upload has ended when it is there"
    # Once something of a report is on its way up, so is all that says nothing else.
    assert desk.executor.traffic.bytes_up == 300 + 40 + 5 + 1000
    assert desk.executor.traffic.bytes_down == 6 + 7


def test_what_is_told_before_anything_went_up_came_down() -> None:
    desk = Desk(shape=True)
    desk.place(7, Noted(1.0, "lost", 0), Noted(1.5, "dropped_out", 40, detail="up"), Noted(2.0, "downloaded", 5))
    assert (desk.executor.traffic.bytes_up, desk.executor.traffic.bytes_down) == (40, 5)


@pytest.mark.parametrize(("passed_s", "told_s", "ahead"), [(100.0, 1.01 * 100.0 + 0.01, False), (100.0, 101.02, True)])
def test_clocks_may_differ_by_one_in_a_hundred_and_a_hundredth_of_a_second(
    passed_s: float, told_s: float, ahead: bool, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(now_s=200.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            placed = desk.place(7, Noted(told_s, "trained"), arrived_s=10.0 + passed_s)
    assert {event[0] for event in placed} == {110.0}, "nothing is put after the message that told of it"
    assert desk.reports.ahead == ({2} if ahead else set())
    said = [record.getMessage() for record in caplog.records]
    told = "client ann tells of 101 s at what it had for 100 s: its clock jumped, or it lies; what it tells is put "
    assert said == ([f"{told}before its message"] if ahead else []), "once for each client"


def test_the_first_task_of_a_run_is_one_as_others_are() -> None:
    desk = Desk(shape=True)
    tasks = TasksInFlight()
    desk.member.task = tasks.begin(Dispatch(0, 2, 1))
    assert desk.place(0, Noted(1.0, "went_offline"), arrived_s=20.0) == [(11.0, "went_offline", 0, 2, 1, 1)]
    assert desk.member.at_s is None
    assert (desk.executor.traffic.bytes_up, desk.executor.traffic.bytes_down) == (0, 0)
    assert desk.place(-1, Noted(1.0, "sent", 4, detail="up"))[1:] == []
    assert (desk.member.at_s, desk.executor.traffic.bytes_up) == (10.0, 4)


def test_of_a_task_that_it_is_not_at_nothing_is_written() -> None:
    desk = Desk()
    assert desk.place(6, Noted(1.0, "trained")) == []
    assert desk.place(0, Noted(1.0, "trained")) == []
    assert desk.member.at_s == 10.0
    desk.member.task = None
    assert desk.place(7, Noted(1.0, "trained")) == []


def test_when_the_run_has_stopped_what_came_later_is_left_out() -> None:
    desk = Desk()
    desk.executor.stopped = "all versions published"
    told = (Noted(0.5, "downloaded"), Noted(0.6, "training_started"), Noted(0.7, "trained"))
    assert [event[:2] for event in desk.place(7, *told)] == [(10.5, "downloaded"), (10.6, "training_started")]
    assert desk.member.task is not None
    assert not desk.member.task.trained
    again = Desk()
    again.executor.stopped = "all versions published"
    again.place(7, Noted(0.6, "trained"))
    assert again.member.task is not None
    assert again.member.task.trained


def test_what_has_not_happened_yet_by_the_servers_clock_is_left_out_but_the_training_is_done() -> None:
    desk = Desk(now_s=12.0)
    assert [event[:2] for event in desk.place(7, Noted(2.0, "downloaded"), Noted(2.5, "trained"))] == [
        (12.0, "downloaded")
    ]
    assert desk.member.task is not None
    assert desk.member.task.trained


def test_a_client_that_told_of_one_thing_is_still_at_the_other() -> None:
    desk = Desk()
    request: Any = object()
    desk.member.request = request
    desk.place(7, Noted(1.0, "trained"))
    assert desk.member.at_s == 30.0
    desk.place(-1)
    assert desk.member.at_s == 10.0
    desk.member.task = None
    desk.place(-1)
    assert desk.member.at_s is None


@pytest.mark.parametrize(
    ("shape", "noted", "why"),
    [
        (False, Noted(0.0, "sent", 5), "a client tells of what it sent where a world shapes the run"),
        (True, Noted(0.0, "sent", -1), "a client tells of what it sent where a world shapes the run"),
        (True, Noted(0.0, "aggregated"), "a client does not tell of 'aggregated'"),
        (False, Noted(0.0, "trained", detail="2 of 4 epochs"), "got '2 of 4 epochs'"),
        (False, Noted(0.0, "trained", detail="3 of 3 epochs"), "got '3 of 3 epochs'"),
    ],
)
def test_what_no_client_tells_of_is_refused(shape: bool, noted: Noted, why: str) -> None:
    with pytest.raises(WireError, match=why):
        Desk(shape=shape, training=DEADLINE).place(7, noted)


def test_a_training_may_end_before_its_last_epoch_only_where_there_is_a_deadline() -> None:
    stopped = Noted(1.0, "trained", detail="2 of 3 epochs")
    desk = Desk(training=DEADLINE)
    desk.place(7, stopped)
    assert desk.written[0][-1] == "2 of 3 epochs"
    with pytest.raises(WireError, match="ends with its epochs where it was stopped, else nothing is said"):
        Desk(training=Training(lr=0.1, epochs=3)).place(7, stopped)
    assert Desk(shape=True).place(7, Noted(0.0, "sent", 0)) == [], "no event"


def test_the_tap_holds_the_update_or_the_model_of_a_task() -> None:
    desk = Desk()
    desk.place(7, Noted(1.0, "overheard", detail="down"), Noted(2.0, "overheard", detail="up"))
    traffic = desk.executor.traffic
    assert (traffic.overheard_down, traffic.overheard_up, traffic.overheard_versions) == ({2: 1}, {2: 1}, {1})
    assert desk.member.task is not None
    assert desk.member.task.overheard
    heard_down = Desk()
    heard_down.place(7, Noted(1.0, "overheard", detail="down"))
    assert heard_down.member.task is not None
    assert not heard_down.member.task.overheard


def test_updates_that_are_to_be_scored_are_overheard_together_once() -> None:
    """The models of a request are the updates of the buffer: whose the tap has already, it does not get anew."""
    desk = Desk()
    desk.executor.tasks.collect((4, 7))
    desk.member.task.overheard = True  # type: ignore[union-attr]
    placed = desk.place(
        -1, Noted(2.0, "overheard", detail="scoring down"), Noted(3.0, "overheard", detail="scoring up")
    )
    assert placed == [
        (32.0, "overheard", -1, 2, 2, -1),
        (32.0, "overheard", 4, 1, 2, 0),
        (33.0, "overheard", -1, 2, 2, -1),
    ]
    assert [event[-1] for event in desk.written] == ["scoring down", "scoring down", "scoring up"]
    assert (desk.executor.traffic.overheard_up, desk.executor.traffic.overheard_down) == ({1: 1}, {})
    assert Collect((4, 7)).tasks == tuple(task.number for task in desk.executor.tasks.collected())


def test_that_a_budget_is_spent_is_of_no_task() -> None:
    desk = Desk()
    assert desk.place(7, Noted(1.0, "budget_spent", detail="all of it")) == [(11.0, "budget_spent", -1, 2, 1, -1)]
    assert desk.written[0][1] is Kind.BUDGET_SPENT
