"""The trace of a live run: events of the server, and what clients report of their own.

Clients report seconds since they had what they were sent; `Reports` finds out when that was on the server's clock.
Events go to the recorder in order of time, as soon as no client can report anything earlier.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from asyncfl.federation.action_executor import EventLog
from asyncfl.federation.traffic import Traffic
from asyncfl.learning import Training
from asyncfl.live.clock import LiveClock
from asyncfl.live.members import Member
from asyncfl.live.vocabulary import SENT, Report
from asyncfl.live.wire import WireError
from asyncfl.server.tasks import TaskRecord, TaskTable
from asyncfl.trace import Kind, Recorder
from asyncfl.trace.events import CAUGHT, SCORING_DOWN, is_epochs_detail
from asyncfl.world.tap import Tap

log = logging.getLogger("asyncfl.live")

AHEAD_S = 0.01
"""Seconds by which clocks of two machines may differ over a task, besides one in a hundred."""
FLUSH_EVERY = 8192
"""Events that are held before those are written that nothing can precede."""

COUNTED = (Kind.DOWNLOADED, Kind.UPLOADED, Kind.LOST, Kind.WENT_OFFLINE, Kind.DROPPED_OUT)
"""Kinds of events that say how many bytes were sent."""
FINAL = (Kind.UPLOADED, Kind.LOST, Kind.DROPPED_OUT, Kind.WENT_OFFLINE)
"""Kinds of events that end a task. The server handles them with the message that they come with."""
REPORTED = frozenset(
    {*COUNTED, *CAUGHT, Kind.TRAINING_STARTED, Kind.TRAINED, Kind.UPLOAD_STARTED, Kind.RETRANSMITTED, Kind.BUDGET_SPENT}
)
"""Kinds of events that clients report."""


class LiveEventLog(EventLog):
    """Records the events of one live run."""

    def __init__(self, recorder: Recorder, clock: LiveClock, earliest_s: Callable[[], float]) -> None:
        """`earliest_s`: returns the time before which no event can be reported any more."""
        super().__init__(self._hold)
        self.recorder = recorder
        self.clock = clock
        self._earliest_s = earliest_s
        self._version = 0
        self._published = array("d")
        self._held: list[tuple[Any, ...]] = []
        self._flush_at = FLUSH_EVERY

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.clock.now

    @property
    def version(self) -> int:
        """The version published last."""
        return self._version

    @version.setter
    def version(self, version: int) -> None:
        self._version = version
        self._published.append(self.now)

    def place(
        self,
        time_s: float,
        kind: Kind,
        task: TaskRecord | None,
        client: int,
        size: int = -1,
        attempt: int = -1,
        detail: str = "",
    ) -> None:
        """Record an event at `time_s`, with the version that was out then. `task` None: it belongs to none."""
        version = self._version if time_s >= self.now else max(0, bisect_right(self._published, time_s) - 1)
        number, base = (-1, -1) if task is None else (task.number, task.base_version)
        client = client if task is None else task.client
        self._hold(time_s, kind, number, client, version, base, -1, size, attempt, float("nan"), detail)

    def _hold(self, *event: Any) -> None:
        self._held.append(event)
        if len(self._held) >= self._flush_at:
            self.flush(self._earliest_s())
            self._flush_at = 2 * len(self._held) + FLUSH_EVERY

    def flush(self, before_s: float) -> None:
        """Hand the events before that time to the recorder."""
        self._held.sort(key=lambda event: event[0])
        ready = bisect_right(self._held, before_s, key=lambda event: event[0])
        for event in self._held[:ready]:
            self.recorder.add(*event)
        del self._held[:ready]


class Reports:
    """Reports of the clients of one run."""

    def __init__(
        self,
        event_log: LiveEventLog,
        tasks: TaskTable,
        traffic: Traffic,
        training: Training,
        *,
        shape: bool,
        observed: bool = False,
        tap: Tap | None = None,
    ) -> None:
        """Args:

        training: What clients are asked for.
        shape: Whether clients wait as the scenario's world says, and report its bytes and times.
        observed: Whether `observe` is told of events when they happen.
        tap: The tap on real links, where every message counts as overheard; None: clients report what it heard.
        """
        self._event_log, self._tasks, self._traffic, self._training = event_log, tasks, traffic, training
        self._shape, self._observed, self._tap = shape, observed, tap
        self.ahead: set[int] = set()
        """Clients that reported more time than had passed."""

    def place(
        self,
        member: Member,
        number: int,
        report: Report,
        arrived_s: float | None = None,
        ended_s: float | None = None,
    ) -> None:
        """Put a report into the trace.

        Args:
            member: The client.
            number: Number of its task; -1: a request for scores. Reports of another than its current task are ignored.
            report: What happened, in seconds since the client had the task.
            arrived_s: Time at which the report arrived with the answer; of the time that both messages took on the way,
                half counts for the first. None: the report came without an answer.
            ended_s: Time at which the run ended; later events are left out. None: it goes on.
        """
        task = member.task if number >= 0 else None
        if number >= 0 and (task is None or task.number != number):
            return
        began_s = member.sent_s if number >= 0 else member.asked_s
        if arrived_s is not None and report:
            last_s = report[-1].after_s
            if not self._shape:
                began_s += max(0.0, arrived_s - began_s - last_s) / 2
            if last_s > 1.01 * (arrived_s - began_s) + AHEAD_S:
                self._runs_ahead(member, last_s, arrived_s - began_s)
        end_s = self._event_log.now if ended_s is None else ended_s
        way = "up" if any(one.kind == Kind.UPLOAD_STARTED for one in report) else "down"
        for one in report:
            time_s = began_s + one.after_s
            if arrived_s is not None:
                time_s = arrived_s if one.kind == Kind.UPLOADED else min(time_s, arrived_s)
            if task is not None and one.kind == Kind.TRAINED and (time_s <= end_s or ended_s is None):
                task.trained = True
            if self._observed:
                # On virtual time a message takes none, and the end of a task is reported when it happens.
                time_s = self._event_log.now
            late = time_s > end_s and arrived_s is not None and one.kind == Kind.UPLOADED
            if late and not (self._shape or self._observed):
                # An update over a real link that arrives after the end is not used, but the server has it.
                time_s = end_s
                self.count_tapped(member, task, "up")
            if time_s > end_s or (self._observed and one.kind not in FINAL):
                continue
            self._place_one(member, task, one.kind, time_s, one.size, one.attempt, one.detail, way)
        if number >= 0:
            member.at_s = None if member.request is None else member.asked_s
        else:
            member.at_s = None if member.task is None else member.sent_s

    def observe(self, member: Member, number: int, kind: str, size: int, attempt: int, detail: str) -> None:
        """Put an event of a client that happens now into the trace, unless it ends a task.

        `number`: of the task; -1: a request for scores.
        """
        task = member.task if number >= 0 else None
        if kind not in FINAL and (task is not None or number < 0):
            self._place_one(member, task, kind, self._event_log.now, size, attempt, detail, "")

    def _runs_ahead(self, member: Member, told_s: float, passed_s: float) -> None:
        if member.number not in self.ahead:
            self.ahead.add(member.number)
            log.warning(
                "client %s tells of %.3g s at what it had for %.3g s: its clock jumped, or it lies; what it tells is "
                "put before its message",
                member.name,
                told_s,
                passed_s,
            )

    def _place_one(
        self,
        member: Member,
        task: TaskRecord | None,
        kind: str,
        time_s: float,
        size: int,
        attempt: int,
        detail: str,
        way: str,
    ) -> None:
        if kind == SENT:
            if not self._shape or size < 0:
                raise WireError("a client tells of what it sent where a world shapes the run, and how much that was")
            self._traffic.count(size, "up" if detail == "up" else "down")
            return
        if kind not in REPORTED:
            raise WireError(f"a client does not tell of {kind!r}")
        event, training = Kind(kind), self._training
        may_stop = training.deadline_s is not None and is_epochs_detail(detail, training.epochs)
        if event is Kind.TRAINED and detail and not may_stop:
            raise WireError(
                f"a training ends with its epochs where it was stopped, else nothing is said, got {detail!r}"
            )
        if self._shape and event in COUNTED:
            self._traffic.count(max(0, size), "up" if (detail or way) == "up" else "down")
        if event in CAUGHT:
            self._overheard(member, task, time_s, event, detail)
            return
        of = None if event is Kind.BUDGET_SPENT else task
        self._event_log.place(time_s, event, of, member.number, size, attempt, detail)

    def count_tapped(self, member: Member, task: TaskRecord | None, way: str) -> None:
        """Count a message on a real link as overheard, if the scenario's tap is on that link.

        `way`: `down`, `up`, or the name of a message of a request for scores.
        """
        tap = self._tap
        if tap is not None and {"down": tap.downlink, "up": tap.uplink}.get(way, tap.scoring):
            self._overheard(member, task, self._event_log.now, Kind.OVERHEARD, way)

    def _overheard(self, member: Member, task: TaskRecord | None, time_s: float, event: Kind, way: str) -> None:
        tasks = [task] if task is not None else []
        if task is None:
            self._event_log.place(time_s, event, None, member.number, detail=way)
            if way == SCORING_DOWN:
                tasks = [one for one in self._tasks.collected() if not one.overheard]
        for one in tasks:
            if event is Kind.OVERHEARD:
                one.overheard |= way != "down"
                self._traffic.overhear("down" if way == "down" else "up", one.client, one.base_version)
            self._event_log.place(time_s, event, one, one.client, detail=way)
