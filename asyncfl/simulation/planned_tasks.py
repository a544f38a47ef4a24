"""Tasks whose phases all follow from their begin: each waits once, for the end of its last phase.

Where a task shares nothing and its client does not go offline meanwhile, its events are known when it begins. They are
handed to the recorder at once, and the task is no process: the clock has one pending call for it. Tasks that were
guessed are planned many at a time (`task_columns`), the others alone (`phases.TaskPlan`).
"""

from __future__ import annotations

import math
from collections import deque
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from asyncfl.protocol.events import Kind
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.simulation.action_executor import Traffic
from asyncfl.simulation.clients import SimulatedClients
from asyncfl.simulation.clock import Clock
from asyncfl.simulation.phases import TaskPhases, TaskPlan
from asyncfl.simulation.task_columns import TaskColumns
from asyncfl.world.task_blocks import TaskBlocks

if TYPE_CHECKING:
    from asyncfl.simulation.client_processes import ClientProcesses

BLOCK = 1024
"""Tasks that are planned at once, at most."""
LEAST = 256
"""Fewest tasks for which that is faster than one by one."""


class PlannedTasks:
    """The planned tasks of one seed that have not ended, and what they have sent by now."""

    def __init__(self, clock: Clock, clients: SimulatedClients, traffic: Traffic, processes: ClientProcesses) -> None:
        """`processes`: ends the last phase of a task."""
        self._clock, self._clients, self._traffic, self._processes = clock, clients, traffic, processes
        self._alone: dict[int, tuple[TaskRecord, TaskPlan, int]] = {}
        """Number of a task that was planned alone -> its record, its plan and the step of the clock in which it
        began."""
        self._in_columns: dict[int, tuple[TaskRecord, TaskColumns, int, int, float]] = {}
        """Number of another -> its record, its columns, its row there, the step in which it began, and the time."""
        self._downloads: list[tuple[float, int, int, int]] = []
        """Heap of the downloads that will end well: time, task, step in which the task began, bytes sent."""
        load = clients.load
        samples, epochs = (load.samples, load.epochs) if load.processed is None else (load.processed, 1)
        self._blocks = TaskBlocks(clock.world, load.download_bytes, load.upload_bytes, samples, epochs)
        self._columns: TaskColumns | None = None
        """Plans of the tasks that were guessed last."""
        self._coming: deque[TaskRecord] = deque()
        """Tasks that will begin at once."""
        self._until_block = 0
        """Tasks until others are guessed again."""
        clock.before_tables.append(self.catch_up)

    def expect(self, task: TaskRecord) -> None:
        """Take note of a task that will begin at once."""
        self._coming.append(task)

    def next(self) -> TaskRecord:
        """Remove and return the first of the tasks that will begin at once."""
        return self._coming.popleft()

    def begin(self, task: TaskRecord) -> bool:
        """Plan a task that begins now, and hand its events to the recorder. Returns False, and does nothing, if the
        client goes offline before it ends."""
        clock = self._clock
        now_s, speed = clock.now, self._clients.speed(task)
        offline_s = clock.world.presence.next_change(task.client, now_s)
        row = self._guessed(task)
        if row is None or speed != 1.0:
            return self._begin_alone(task, speed, offline_s)
        assert self._columns is not None
        downloaded_s, end_s = self._columns.times(row, now_s)
        if end_s >= offline_s:
            return False
        self._begin_in_columns(task, row, downloaded_s)
        clock.at_task(end_s, task.number, self._end_in_columns)
        return True

    def _begin_in_columns(self, task: TaskRecord, row: int, downloaded_s: float) -> None:
        """Hand over a task that was guessed, with its columns. `downloaded_s`: when it has its model, inf: never."""
        clock, number, columns = self._clock, task.number, self._columns
        recorder, now_s = clock.recorder, clock.now
        assert columns is not None
        step = recorder.foresee_in_columns(columns, row, number, task.base_version, now_s)
        if downloaded_s < math.inf:
            heappush(self._downloads, (downloaded_s, number, step, columns.sent_down(row)))
        self._in_columns[number] = task, columns, row, step, now_s

    def _begin_alone(self, task: TaskRecord, speed: float, offline_s: float) -> bool:
        """Plan a task that was not guessed. Returns as `begin`."""
        clock, clients, number = self._clock, self._clients, task.number
        recorder, now_s = clock.recorder, clock.now
        phases = TaskPhases(clock.world.task(task.client, task.turn), clients.load, speed)
        plan = TaskPlan.of(phases, now_s, offline_s, recorder.whole)
        if plan is None:
            return False
        if recorder.whole:
            clock.record_task(Kind.DOWNLOAD_STARTED, task, -1, plan.download_bytes)
        step = recorder.foresee(number, task.client, task.base_version, plan.events)
        if plan.downloaded_s < math.inf:
            heappush(self._downloads, (plan.downloaded_s, number, step, plan.downloaded_bytes))
        self._alone[number] = task, plan, step
        clock.at_task(plan.end_s, number, self._end_alone)
        return True

    def _guessed(self, task: TaskRecord) -> int | None:
        """Return the row of a task that begins in `_columns`; None if it was not guessed."""
        row = None if self._columns is None else self._columns.take(task.client, task.turn)
        self._until_block -= 1
        if row is None and self._until_block <= 0 and self._blocks.are_possible:
            tasks = [(one.client, one.turn) for one in (task, *islice(self._coming, BLOCK - 1))]
            tasks += self._clock.server.likely_tasks(BLOCK - len(tasks))
            self._until_block = len(tasks)
            if len(tasks) >= LEAST:
                self._columns = TaskColumns(
                    self._blocks.draw(tasks), self._clients.load, tasks, self._clock.recorder.whole
                )
                row = self._columns.take(task.client, task.turn)
        return row

    def _end_alone(self, number: int) -> None:
        """End the last phase of a task that was planned alone."""
        task, plan, _ = self._alone.pop(number)
        task.note_all(plan.events)
        if plan.trained_s < math.inf:
            task.epochs = plan.epochs
        self._processes.end_phase(task, plan.last)

    def _end_in_columns(self, number: int) -> None:
        """End the last phase of a task in columns."""
        task, columns, row, _, began_s = self._in_columns.pop(number)
        task.planned = columns, row, began_s
        kind, fails, way, sent_bytes, attempts = columns.last(row)
        self._traffic.count(sent_bytes, way)
        clock = self._clock
        clock.recorder.end_in_columns(columns, row, number, task.base_version)
        clock.note(task, kind, clock.now, sent_bytes, attempts, way)
        self._processes.goes_on(task, kind, fails)

    def catch_up(self) -> None:
        """Write into the records of tasks what has happened by now."""
        recorder = self._clock.recorder
        has_passed = recorder.has_passed
        for task, plan, step in self._alone.values():
            for event in plan.events:
                if has_passed(event[1], task.number, step):
                    task.note(*event)
            if has_passed(plan.trained_s, task.number, step):
                task.epochs = plan.epochs
        together: dict[TaskColumns, list[tuple[TaskRecord, int, int, float]]] = {}
        for task, columns, row, step, began_s in self._in_columns.values():
            together.setdefault(columns, []).append((task, step, row, began_s))
        for columns, tasks in together.items():
            _, _, rows, begins_s = zip(*tasks, strict=True)
            for events in columns.events(np.array(rows), np.array(begins_s)):
                for place, number in enumerate(events.rows.tolist()):
                    task, step, _, _ = tasks[number]
                    time_s = float(events.time_s[place])
                    if events.kind is Kind.DOWNLOAD_STARTED or has_passed(time_s, task.number, step):
                        size, attempt = events.of(place)
                        task.note(events.kind, time_s, size, attempt, events.detail)

    def count_traffic(self) -> None:
        """Count what has been sent by now."""
        downloads, recorder, now_s = self._downloads, self._clock.recorder, self._clock.now
        later, bytes_down = [], 0
        while downloads and downloads[0][0] <= now_s:
            time_s, number, step, sent_bytes = one = heappop(downloads)
            if time_s == now_s and not recorder.has_passed(time_s, number, step):
                later.append(one)
            else:
                bytes_down += sent_bytes
        self._traffic.count(bytes_down, "down")
        for one in later:
            heappush(downloads, one)
