"""The trace of a live run: events of the server, and what clients report of their own.

Clients report seconds since they had what they were sent; `Reports` finds out when that was on the server's clock.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

import numpy as np
import pyarrow as pa

from asyncfl.base.instrument import Row
from asyncfl.extras.live.client_messages import SENT, ClientEvent, Report
from asyncfl.extras.live.clock import LiveTiming, StepClock
from asyncfl.protocol.events import CAUGHT, SCORING_DOWN, Kind
from asyncfl.protocol.recorder import Recorder
from asyncfl.protocol.task_record import FINAL, TaskRecord
from asyncfl.protocol.task_table import TaskTable
from asyncfl.scenario import Scenario
from asyncfl.simulation.action_executor import EventLog, Traffic
from asyncfl.simulation.phases import Way
from asyncfl.simulation.round_recorder import RoundRows

COUNTED = (Kind.DOWNLOADED, Kind.UPLOADED, Kind.LOST, Kind.WENT_OFFLINE, Kind.DROPPED_OUT)
"""Kinds of events that say how many bytes were sent."""


class LiveEventLog(EventLog):
    """Records the events of one live run as the server learns of them."""

    def __init__(self, recorder: Recorder, clock: StepClock) -> None:
        self._version = 0
        self._published = array("d")
        super().__init__(recorder, clock)

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
        self.recorder.add(time_s, kind, number, client, version, base, -1, size, attempt, float("nan"), detail)
        if task is not None:
            self.note(task, kind, time_s, size, attempt, detail)

    def table(self) -> pa.Table:
        """Return all events by time; those of one time in the order in which they were recorded."""
        table = self.recorder.table()
        times = table["time_s"].to_numpy()
        if (np.diff(times) >= 0).all():
            return table
        in_order = table.take(np.argsort(times, kind="stable"))
        return in_order.set_column(table.schema.names.index("seq"), table.schema.field("seq"), table["seq"])


class Reports:
    """Reports of the clients of one run, which keep to the rules (`report_rules`)."""

    def __init__(
        self, event_log: LiveEventLog, tasks: TaskTable, traffic: Traffic, scenario: Scenario, timing: LiveTiming
    ) -> None:
        self._event_log, self._tasks, self._traffic = event_log, tasks, traffic
        self._shape, self._observed = timing.shape, timing.virtual
        self._downloads: list[tuple[float, int]] = []
        # On a tapped real link every message counts as overheard; shaped clients report what the tap heard.
        self._tap = None if timing.shape else scenario.world.tap

    def place(
        self,
        client: int,
        task: TaskRecord | None,
        began_s: float,
        report: Report,
        arrived_s: float | None = None,
        ended_s: float | None = None,
    ) -> None:
        """Put a report into the trace.

        Args:
            client: Number of the client.
            task: The task that it is about; None: a request for scores.
            began_s: Time at which the client was sent that.
            report: What happened, in seconds since the client had it.
            arrived_s: Time at which the report arrived with the answer; of the time that both messages took on the way,
                half counts for the first; later events are put there. None: the report came without an answer.
            ended_s: Time at which the run ended; later events are left out. None: it goes on.
        """
        if arrived_s is not None and report and not self._shape:
            began_s += max(0.0, arrived_s - began_s - report[-1].after_s) / 2
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
                self.count_tapped(client, task, "up")
            if time_s <= end_s and (not self._observed or one.kind in FINAL):
                self._place_one(client, task, one, time_s, way)

    def observe(self, client: int, task: TaskRecord | None, one: ClientEvent) -> None:
        """Put an event of a client that happens now into the trace, unless it ends a task."""
        if one.kind not in FINAL:
            self._place_one(client, task, one, self._event_log.now)

    def _place_one(self, client: int, task: TaskRecord | None, one: ClientEvent, time_s: float, way: str = "") -> None:
        if one.kind == SENT:
            self._count(one.size, "up" if one.detail == "up" else "down", time_s)
            return
        event = Kind(one.kind)
        if self._shape and event in COUNTED:
            self._count(max(0, one.size), "up" if (one.detail or way) == "up" else "down", time_s)
        if event in CAUGHT:
            self._overheard(client, task, time_s, event, one.detail)
            return
        of = None if event is Kind.BUDGET_SPENT else task
        self._event_log.place(time_s, event, of, client, one.size, one.attempt, one.detail)

    def _count(self, size: int, way: Way, time_s: float) -> None:
        self._traffic.count(size, way)
        if way == "down":
            self._downloads.append((time_s, size))

    def with_downloads(self, rows: Iterable[Row]) -> RoundRows:
        """Return the rows of all versions with the bytes that shaped clients had been sent by then.

        Clients report a download together with the end of its task, when more versions may have been published.
        """
        ordered = sorted(self._downloads)
        total, made = [0, *accumulate(size for _, size in ordered)], RoundRows()
        for row in rows:
            made.append({**row, "bytes_down": total[bisect_right(ordered, (row["time_s"], math.inf))]})
            made.completed()
        return made

    def count_tapped(self, client: int, task: TaskRecord | None, way: str) -> None:
        """Count a message on a real link as overheard, if the scenario's tap is on that link.

        `way`: `down`, `up`, or the name of a message of a request for scores.
        """
        tap = self._tap
        if tap is not None and {"down": tap.downlink, "up": tap.uplink}.get(way, tap.scoring):
            self._overheard(client, task, self._event_log.now, Kind.OVERHEARD, way)

    def _overheard(self, client: int, task: TaskRecord | None, time_s: float, event: Kind, way: str) -> None:
        tasks = [task] if task is not None else []
        if task is None:
            self._event_log.place(time_s, event, None, client, detail=way)
            if way == SCORING_DOWN:
                tasks = [one for one in self._tasks.collected() if not one.overheard]
        for one in tasks:
            self._event_log.place(time_s, event, one, one.client, detail=way)
