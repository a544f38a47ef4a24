"""What clients tell of what happened to them, put into the trace and the traffic.

They tell seconds since they had what they were sent; where that is on the server's clock is found out here.
"""

from __future__ import annotations

import logging

from asyncfl.federation.action_executor import ActionExecutor
from asyncfl.federation.tasks_in_flight import TaskInFlight
from asyncfl.learning import Training
from asyncfl.live.errands import SENT
from asyncfl.live.live_event_log import LiveEventLog
from asyncfl.live.members import Member
from asyncfl.live.vocabulary import Report
from asyncfl.live.wire import WireError
from asyncfl.trace import Kind
from asyncfl.trace.events import CAUGHT, SCORING_DOWN, is_epochs_detail
from asyncfl.world.tap import Tap

log = logging.getLogger("asyncfl.live")

AHEAD_S = 0.01
"""Seconds by which clocks of two machines may differ over a task, besides one in a hundred."""
TOLD = frozenset(
    {
        Kind.DOWNLOADED,
        Kind.TRAINING_STARTED,
        Kind.TRAINED,
        Kind.UPLOAD_STARTED,
        Kind.UPLOADED,
        Kind.LOST,
        Kind.RETRANSMITTED,
        *CAUGHT,
        Kind.WENT_OFFLINE,
        Kind.DROPPED_OUT,
        Kind.BUDGET_SPENT,
    }
)
"""Kinds of events that clients tell of."""
ANSWERED = frozenset({Kind.UPLOADED, Kind.LOST, Kind.DROPPED_OUT, Kind.WENT_OFFLINE})
"""Those that end a task. The server handles them with the message that they come with."""
COUNTED = (Kind.DOWNLOADED, Kind.UPLOADED, Kind.LOST, Kind.WENT_OFFLINE, Kind.DROPPED_OUT)
"""Those that say how many bytes were sent."""


class Reports:
    """What the clients of one run told of."""

    def __init__(
        self,
        executor: ActionExecutor,
        event_log: LiveEventLog,
        training: Training,
        *,
        shape: bool,
        observed: bool = False,
        tap: Tap | None = None,
    ) -> None:
        """`training`: what clients are asked for. `shape`: whether they wait as the scenario's world says, and tell of
        its bytes and times. `observed`: whether `observe` is told of events when they happen. `tap`: on real links,
        where nobody knows what it hears; None: clients tell what it heard."""
        self._training = training
        self._executor, self._event_log, self._shape = executor, event_log, shape
        self._observed = observed
        self._tap = tap
        self.ahead: set[int] = set()
        """Clients that told of more time than had passed."""

    def place(self, member: Member, number: int, report: Report, arrived_s: float | None = None) -> None:
        """Put what a client tells of into the trace.

        It tells seconds since it had what it was sent. What the message took on its way there, of what both took
        together, is taken as half.
        """
        task = member.task if number >= 0 else None
        if number >= 0 and (task is None or task.number != number):
            return
        began_s = member.sent_s if number >= 0 else member.asked_s
        if arrived_s is not None and report and not self._shape:
            began_s += max(0.0, arrived_s - began_s - report[-1].after_s) / 2
        if arrived_s is not None and report and report[-1].after_s > 1.01 * (arrived_s - began_s) + AHEAD_S:
            self._runs_ahead(member, report[-1].after_s, arrived_s - began_s)
        end_s = self._event_log.now if self._executor.stopped is None else self._executor.server.validator.time_s
        way = "up" if any(one.kind == Kind.UPLOAD_STARTED for one in report) else "down"
        for one in report:
            time_s = began_s + one.after_s
            if arrived_s is not None:
                time_s = arrived_s if one.kind == Kind.UPLOADED else min(time_s, arrived_s)
            if task is not None and one.kind == Kind.TRAINED and (time_s <= end_s or self._executor.stopped is None):
                task.trained = True
            if self._observed:
                # On virtual time a message takes none, and the end of a task is told when it happens.
                time_s = self._event_log.now
            late = time_s > end_s and arrived_s is not None and one.kind == Kind.UPLOADED
            if late and not (self._shape or self._observed):
                # An update over a real link that arrives after the end is not used, but the server has it.
                time_s = end_s
                self.count_tapped(member, task, "up")
            if time_s > end_s or (self._observed and one.kind not in ANSWERED):
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
        if kind in ANSWERED or self._executor.stopped is not None or (task is None and number >= 0):
            return
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
        task: TaskInFlight | None,
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
            self._executor.traffic.count(size, "up" if detail == "up" else "down")
            return
        if kind not in TOLD:
            raise WireError(f"a client does not tell of {kind!r}")
        event = Kind(kind)
        if event is Kind.TRAINED and detail and not self._may_end(detail):
            raise WireError(
                f"a training ends with its epochs where it was stopped, else nothing is said, got {detail!r}"
            )
        if self._shape and event in COUNTED:
            self._executor.traffic.count(max(0, size), "up" if (detail or way) == "up" else "down")
        if event in CAUGHT:
            self._overheard(member, task, time_s, event, detail)
            return
        if event is Kind.BUDGET_SPENT:
            task = None
        self._event_log.place(time_s, event, task, member.number, size=size, attempt=attempt, detail=detail)

    def count_tapped(self, member: Member, task: TaskInFlight | None, way: str) -> None:
        """Count a message on a real link as overheard, if the scenario's tap is on that link.

        `way`: `down`, `up`, or the name of a message of a request for scores.
        """
        tap = self._tap
        if tap is not None and {"down": tap.downlink, "up": tap.uplink}.get(way, tap.scoring):
            self._overheard(member, task, self._event_log.now, Kind.OVERHEARD, way)

    def _may_end(self, detail: str) -> bool:
        return self._training.deadline_s is not None and is_epochs_detail(detail, self._training.epochs)

    def _overheard(self, member: Member, task: TaskInFlight | None, time_s: float, event: Kind, way: str) -> None:
        tasks = [task] if task is not None else []
        if task is None:
            self._event_log.place(time_s, event, None, member.number, detail=way)
            tasks = (
                [one for one in self._executor.tasks.collected() if not one.overheard] if way == SCORING_DOWN else []
            )
        for one in tasks:
            if event is Kind.OVERHEARD:
                one.overheard |= way != "down"
                self._executor.traffic.overhear("down" if way == "down" else "up", one.client, one.base_version)
            self._event_log.place(time_s, event, one, detail=way)
