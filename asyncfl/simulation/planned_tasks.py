"""Tasks whose phases all follow from their begin: each waits once, for the end of its last phase.

Where a task shares nothing and its client does not go offline meanwhile, its events are known when it begins. They are
handed to the recorder at once, and the task is no process: the clock has one pending call for it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from asyncfl.protocol.events import Kind
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.simulation.action_executor import Traffic
from asyncfl.simulation.clients import SimulatedClients
from asyncfl.simulation.clock import Clock, Moment
from asyncfl.simulation.event_order import EventOrder, Priority
from asyncfl.simulation.phases import Phase, TaskPhases, TaskPlan, Way
from asyncfl.world.task_blocks import TaskBlocks
from asyncfl.world.world import TaskDraws

BLOCK = 1024
"""Tasks whose transfers are drawn at once, at most."""
LEAST = 256
"""Fewest tasks for which that is faster than one by one."""


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
        self._blocks = TaskBlocks(clock.world, clients.load.download_bytes, clients.load.upload_bytes)
        self._coming_soon: deque[tuple[int, int]] = deque()
        """Client and turn of tasks that will begin at once."""
        self._until_block = 0
        """Tasks until draws of others are guessed again."""
        clock.before_tables.append(self.catch_up)

    def expect(self, task: TaskRecord) -> None:
        """Take note of a task that will begin at once."""
        self._coming_soon.append((task.client, task.turn))

    def begin(self, task: TaskRecord) -> bool:
        """Plan a task that begins now, and log its events as far as they are planned. Returns False, and does nothing,
        if the client goes offline before it ends."""
        clock, clients, number, coming = self._clock, self._clients, task.number, self._coming
        world, recorder, now_s = clock.world, clock.recorder, clock.now
        phases = TaskPhases(self._draws(task), clients.load, clients.speed(task))
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

    def _draws(self, task: TaskRecord) -> TaskDraws:
        """Return the draws of a task, from a block of many where it was guessed."""
        client, turn = task.client, task.turn
        draws = self._blocks.task(client, turn)
        self._until_block -= 1
        if draws is None and self._until_block <= 0 and self._blocks.is_useful:
            tasks = [self._coming_soon.popleft() for _ in range(min(len(self._coming_soon), BLOCK))]
            tasks += self._clock.server.likely_tasks(BLOCK - len(tasks))
            self._until_block = len(tasks)
            if len(tasks) >= LEAST:
                self._blocks.draw(tasks)
                draws = self._blocks.task(client, turn)
        if self._coming_soon and self._coming_soon[0] == (client, turn):
            self._coming_soon.popleft()
        return draws or self._clock.world.task(client, turn)

    def _end(self, number: int) -> None:
        """End the last phase of a task."""
        task, plan, _ = self._open.pop(number)
        task.note_all(plan.events)
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
