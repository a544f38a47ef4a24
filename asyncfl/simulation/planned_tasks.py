"""Tasks whose phases all follow from their begin: each waits once, for the end of its last phase.

Where a task shares nothing and its client does not go offline meanwhile, its events are known when it begins. They are
handed to the recorder at once, and the task is no process: the clock has one pending call for it. Tasks that were
guessed are planned many at a time (`task_columns`), the others alone (`phases.TaskPlan`).
"""

from __future__ import annotations

import math
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from asyncfl.protocol.events import Kind
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.simulation.action_executor import Traffic
from asyncfl.simulation.clients import SimulatedClients
from asyncfl.simulation.clock import Clock
from asyncfl.simulation.phases import TaskPhases, TaskPlan, Way
from asyncfl.simulation.task_columns import PlannedTask, TaskColumns
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
        self._in_columns: dict[int, tuple[TaskRecord, TaskColumns, PlannedTask, int, float]] = {}
        """Number of another -> its record, its columns, its plan, the step in which it began, and the time."""
        self._coming: list[tuple[float, int, int, int, TaskRecord, Way]] = []
        """Heap of traffic to be counted: time, task, step in which the task began, bytes of the model that has been
        sent by then (-1: a message is overheard), task, direction."""
        load = clients.load
        samples, epochs = (load.samples, load.epochs) if load.processed is None else (load.processed, 1)
        self._blocks = TaskBlocks(clock.world, load.download_bytes, load.upload_bytes, samples, epochs)
        self._columns: TaskColumns | None = None
        """Plans of the tasks that were guessed last."""
        self._coming_soon: deque[tuple[int, int]] = deque()
        """Client and turn of tasks that will begin at once."""
        self._until_block = 0
        """Tasks until others are guessed again."""
        clock.before_tables.append(self.catch_up)

    def expect(self, task: TaskRecord) -> None:
        """Take note of a task that will begin at once."""
        self._coming_soon.append((task.client, task.turn))

    def begin(self, task: TaskRecord) -> bool:
        """Plan a task that begins now, and hand its events to the recorder. Returns False, and does nothing, if the
        client goes offline before it ends."""
        clock = self._clock
        now_s, speed = clock.now, self._clients.speed(task)
        offline_s = clock.world.presence.next_change(task.client, now_s)
        planned = self._guessed(task)
        if planned is None or speed != 1.0:
            return self._begin_alone(task, speed, offline_s)
        end_s = planned.end_s(now_s)
        if end_s >= offline_s:
            return False
        self._begin_in_columns(task, planned, now_s)
        clock.at_task(end_s, task.number, self._end_in_columns)
        return True

    def _begin_in_columns(self, task: TaskRecord, planned: PlannedTask, now_s: float) -> None:
        """Hand over a task that was guessed, with its columns."""
        clock, number, columns, coming = self._clock, task.number, self._columns, self._coming
        recorder = clock.recorder
        assert columns is not None
        if recorder.whole:
            clock.record_task(Kind.DOWNLOAD_STARTED, task, -1, columns.download_bytes)
        step = recorder.foresee_in_columns(columns, planned.row, number, task.base_version, now_s)
        if planned.overheard_down_s < math.inf:
            heappush(coming, (now_s + planned.overheard_down_s, number, step, -1, task, "down"))
        if planned.compute_s < math.inf:
            downloaded_s = now_s + planned.download_s
            heappush(coming, (downloaded_s, number, step, planned.downloaded_bytes, task, "down"))
            if planned.overheard_up_s < math.inf:
                overheard_s = downloaded_s + planned.compute_s + planned.overheard_up_s
                heappush(coming, (overheard_s, number, step, -1, task, "up"))
        self._in_columns[number] = task, columns, planned, step, now_s

    def _begin_alone(self, task: TaskRecord, speed: float, offline_s: float) -> bool:
        """Plan a task that was not guessed. Returns as `begin`."""
        clock, clients, number, coming = self._clock, self._clients, task.number, self._coming
        recorder, now_s = clock.recorder, clock.now
        phases = TaskPhases(clock.world.task(task.client, task.turn), clients.load, speed)
        plan = TaskPlan.of(phases, now_s, offline_s, recorder.whole)
        if plan is None:
            return False
        if recorder.whole:
            clock.record_task(Kind.DOWNLOAD_STARTED, task, -1, plan.download_bytes)
        step = recorder.foresee(number, task.client, task.base_version, plan.events)
        if plan.downloaded_s < math.inf:
            heappush(coming, (plan.downloaded_s, number, step, plan.downloaded_bytes, task, "down"))
        for time_s, way in plan.overheard:
            heappush(coming, (time_s, number, step, -1, task, way))
        self._alone[number] = task, plan, step
        clock.at_task(plan.end_s, number, self._end_alone)
        return True

    def _guessed(self, task: TaskRecord) -> PlannedTask | None:
        """Return the plan of a task that begins; None if it was not guessed."""
        client, turn = task.client, task.turn
        planned = None if self._columns is None else self._columns.take(client, turn)
        self._until_block -= 1
        if planned is None and self._until_block <= 0 and self._blocks.are_possible:
            tasks = [self._coming_soon.popleft() for _ in range(min(len(self._coming_soon), BLOCK))]
            tasks += self._clock.server.likely_tasks(BLOCK - len(tasks))
            self._until_block = len(tasks)
            if len(tasks) >= LEAST:
                self._columns = TaskColumns(self._blocks.draw(tasks), self._clients.load)
                planned = self._columns.take(client, turn)
        if self._coming_soon and self._coming_soon[0] == (client, turn):
            self._coming_soon.popleft()
        return planned

    def _end_alone(self, number: int) -> None:
        """End the last phase of a task that was planned alone."""
        task, plan, _ = self._alone.pop(number)
        task.note_all(plan.events)
        if plan.trained_s < math.inf:
            task.epochs = plan.epochs
        self._processes.end_phase(task, plan.last)

    def _end_in_columns(self, number: int) -> None:
        """End the last phase of a task in columns."""
        task, columns, planned, _, began_s = self._in_columns.pop(number)
        columns.note(task, planned, began_s, self._clock.recorder.whole)
        self._processes.end_message(task, *planned.last)

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
        for task, columns, planned, step, began_s in self._in_columns.values():
            together.setdefault(columns, []).append((task, step, planned.row, began_s))
        for columns, tasks in together.items():
            _, _, rows, begins_s = zip(*tasks, strict=True)
            for events in columns.events(np.array(rows), np.array(begins_s), recorder.whole):
                for place, row in enumerate(events.rows.tolist()):
                    task, step, _, _ = tasks[row]
                    if has_passed(time_s := float(events.time_s[place]), task.number, step):
                        size, attempt = events.of(place)
                        task.note(events.kind, time_s, size, attempt, events.detail)

    def count_traffic(self) -> None:
        """Count what has been sent and overheard by now."""
        coming, recorder, traffic, now_s = self._coming, self._clock.recorder, self._traffic, self._clock.now
        later, bytes_down = [], 0
        while coming and coming[0][0] <= now_s:
            time_s, number, step, size, task, way = one = heappop(coming)
            if time_s == now_s and not recorder.has_passed(time_s, number, step):
                later.append(one)
            elif size >= 0:
                bytes_down += size
            else:
                traffic.overhear(way, task.client, task.base_version)
        traffic.count(bytes_down, "down")
        for one in later:
            heappush(coming, one)
