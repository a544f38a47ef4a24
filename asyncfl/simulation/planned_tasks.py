"""Tasks whose phases all follow from their begin: each waits once, for the end of its last phase.

Where a task shares nothing and its client does not go offline meanwhile, its events are known when it begins. They are
handed to the recorder at once, and the task is no process: the clock has one pending call for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush

from asyncfl.protocol.events import Kind
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.simulation.action_executor import Traffic
from asyncfl.simulation.clients import SimulatedClients
from asyncfl.simulation.clock import Clock, Moment
from asyncfl.simulation.event_order import EventOrder, Priority
from asyncfl.simulation.phases import Phase, TaskPhases, TaskPlan, Way


class PlannedTasks:
    """The planned tasks of one seed that have not ended, and what they have sent by now."""

    def __init__(
        self, clock: Clock, clients: SimulatedClients, traffic: Traffic, end: Callable[[TaskRecord, Phase], bool]
    ) -> None:
        """`end`: ends the last phase of a task."""
        self._clock, self._clients, self._traffic, self._end_phase = clock, clients, traffic, end
        self._open: dict[int, tuple[TaskRecord, TaskPlan, int]] = {}
        """Number of a task -> its record, its plan and the step of the clock in which it began."""
        self._coming: list[tuple[float, int, int, int, TaskRecord, Way]] = []
        """Heap of traffic to be counted: time, task, step in which the task began, bytes that have been sent by then
        (-1: the message is overheard), task, direction."""
        clock.before_tables.append(self.catch_up)

    def begin(self, task: TaskRecord) -> bool:
        """Plan a task that begins now, and log its events as far as they are planned. Returns False, and does nothing,
        if the client goes offline before it ends."""
        clock, clients, number, coming = self._clock, self._clients, task.number, self._coming
        world, recorder, now_s = clock.world, clock.recorder, clock.now
        phases = TaskPhases(world.task(task.client, task.turn), clients.load, clients.speed(task))
        plan = TaskPlan.of(phases, now_s, world.presence.next_change(task.client, now_s), recorder.whole)
        if plan is None:
            return False
        if recorder.whole:
            clock.record_task(Kind.DOWNLOAD_STARTED, task, -1, plan.download_bytes)
        step = recorder.foresee(number, task.client, task.base_version, plan.events)
        if plan.downloaded_s < math.inf:
            heappush(coming, (plan.downloaded_s, number, step, plan.downloaded_bytes, task, "down"))
        for time_s, way in plan.overheard:
            heappush(coming, (time_s, number, step, -1, task, way))
        self._open[number] = task, plan, step
        clock.at(Moment(plan.end_s, EventOrder(Priority.TASK, number)), self._end, number)
        return True

    def _end(self, number: int) -> None:
        """End the last phase of a task."""
        task, plan, _ = self._open.pop(number)
        note = task.note
        for event in plan.events:
            note(*event)
        if plan.trained_s < math.inf:
            task.epochs = plan.epochs
        self._end_phase(task, plan.last)

    def catch_up(self) -> None:
        """Write into the records of tasks what has happened by now."""
        has_passed = self._clock.recorder.has_passed
        for task, plan, step in self._open.values():
            for event in plan.events:
                if has_passed(event[1], task.number, step):
                    task.note(*event)
            if has_passed(plan.trained_s, task.number, step):
                task.epochs = plan.epochs

    def count_traffic(self) -> None:
        """Count what has been sent and overheard by now."""
        coming, recorder, traffic, now_s = self._coming, self._clock.recorder, self._traffic, self._clock.now
        later = []
        while coming and coming[0][0] <= now_s:
            time_s, number, step, size, task, way = one = heappop(coming)
            if time_s == now_s and not recorder.has_passed(time_s, number, step):
                later.append(one)
            elif size >= 0:
                traffic.count(size, way)
            else:
                traffic.overhear(way, task.client, task.base_version)
        for one in later:
            heappush(coming, one)
