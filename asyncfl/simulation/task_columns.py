"""Plans of many tasks at once, in columns, from draws of a block (`world.task_blocks`).

A task in columns does the `STEPS` of any task: the same times, to the last bit, and the same events. Only plain tasks
are here, whose client neither drops out nor stops at a deadline nor is faster than usual; the others are planned one at
a time (`phases.TaskPlan`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from asyncfl.base.arrays import Floats, Ints
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.simulation.phases import STEPS, Way, Workload
from asyncfl.world.task_blocks import DrawnTasks
from asyncfl.world.transfer_block import TransferColumns


class LastEvent(NamedTuple):
    """The event with which a task ends: an upload, or a message that is lost."""

    kind: Kind
    fails: Fate | None
    """Fate of the task; None: its update arrives."""
    way: Way
    sent_bytes: int
    attempts: int


class PlannedTask(NamedTuple):
    """One task of `TaskColumns`. Times are seconds since the begin of the step, inf: never."""

    client: int
    turn: int
    row: int
    download_s: float
    compute_s: float
    """Infinite if the model is lost."""
    upload_s: float
    downloaded_bytes: int
    download_attempts: int
    overheard_down_s: float
    caught_down_s: float
    overheard_up_s: float
    caught_up_s: float
    last: LastEvent

    def end_s(self, began_s: float) -> float:
        """Return the time at which a task ends that begins at `began_s`."""
        downloaded_s = began_s + self.download_s
        return downloaded_s if self.compute_s == math.inf else downloaded_s + self.compute_s + self.upload_s


class EventColumns(NamedTuple):
    """Events of one kind of several tasks, in columns."""

    rows: Ints
    """(n,) index of each task among those asked for."""
    kind: Kind
    time_s: Floats
    """(n,) time of the clock, seconds."""
    size: Ints | int = -1
    """(n,) bytes, or those of all; -1 for none."""
    attempt: Ints | int = -1
    """(n,) number of the transmission, or that of all; -1 for none."""
    detail: str = ""

    def of(self, place: int) -> tuple[int, int]:
        """Return bytes and number of the transmission of one of the events."""
        size, attempt = self.size, self.attempt
        return (
            size if isinstance(size, int) else int(size[place]),
            attempt if isinstance(attempt, int) else int(attempt[place]),
        )


class TaskColumns:
    """Plans of the plain tasks of a block, without the times at which they begin."""

    def __init__(self, drawn: DrawnTasks, load: Workload) -> None:
        self.clients = drawn.clients
        self.download_bytes, self.upload_bytes = load.download_bytes, load.upload_bytes
        self._messages: dict[Way, TransferColumns] = {"down": drawn.down, "up": drawn.up}
        self._compute_s = drawn.compute_s
        down, up = drawn.down, drawn.up
        plain = drawn.are_plain
        if load.deadline_s is not None:
            plain = plain & (drawn.compute_s <= load.deadline_s)
        columns = (
            *(drawn.clients, drawn.turns, np.arange(len(plain))),
            *(down.duration_s, np.where(down.delivered, drawn.compute_s, math.inf), up.duration_s),
            *(down.sent_bytes, down.attempts, down.overheard_s, down.caught_s, up.overheard_s, up.caught_s),
        )
        rows = np.flatnonzero(plain)
        lists = [column[rows].tolist() for column in columns]
        lasts = [
            LastEvent(STEPS[-1].ends if arrives else Kind.LOST, None if arrives else STEPS[-1].lost, "up", *sent)
            for arrives, *sent in zip(
                *(one[rows].tolist() for one in (up.delivered, up.sent_bytes, up.attempts)), strict=True
            )
        ]
        lost = np.flatnonzero(~down.delivered[rows])
        for place, row in zip(lost.tolist(), rows[lost].tolist(), strict=True):
            sent_down = int(down.sent_bytes[row]), int(down.attempts[row])
            lasts[place] = LastEvent(Kind.LOST, STEPS[0].lost, "down", *sent_down)
        self._tasks = {(one.client, one.turn): one for one in map(PlannedTask, *lists, lasts)}
        """Client and turn -> task that has not begun."""

    def take(self, client: int, turn: int) -> PlannedTask | None:
        """Remove and return a task that begins; None if it is not one of these."""
        return self._tasks.pop((client, turn), None)

    def events(self, rows: Ints, began_s: Floats, whole: bool) -> Iterator[EventColumns]:
        """Yield the events between begin and end of the tasks in `rows` (n,), which began at `began_s` (n,). Those of
        one task and one time are in their order. `whole`: see `TaskPlan.of`."""
        here, now_s = np.arange(len(rows)), began_s
        for step in STEPS:
            of = rows[here]
            if step.way is None:
                end_s = now_s + self._compute_s[of]
                if whole:
                    yield EventColumns(here, step.begins, now_s)
                    yield EventColumns(here, step.ends, end_s)
                now_s = end_s
                continue
            message = self._messages[step.way]
            if whole and step is not STEPS[0]:
                yield EventColumns(here, step.begins, now_s, message.payload_bytes)
            yield from self._marks(message, step.way, here, of, now_s, whole)
            arrives = message.delivered[of]
            now_s, here, of = (now_s + message.duration_s[of])[arrives], here[arrives], of[arrives]
            if whole and step is not STEPS[-1]:
                sent, attempts = message.sent_bytes[of], message.attempts[of]
                yield EventColumns(here, step.ends, now_s, sent, attempts, step.way)

    def _marks(
        self, message: TransferColumns, way: Way, here: Ints, of: Ints, now_s: Floats, whole: bool
    ) -> Iterator[EventColumns]:
        """Yield the events of messages that are sent at `now_s` (n,), see `LinkMessage.events_from`. `here`, `of`: (n,)
        index of each task among those asked for, and among all."""
        overheard_s, caught_s = message.overheard_s[of], message.caught_s[of]
        if whole:
            seen = np.flatnonzero(caught_s < overheard_s)
            yield EventColumns(here[seen], Kind.OVERHEARD_IN_PART, (now_s + caught_s)[seen], detail=way)
            for number, (at_s, size) in enumerate(zip(message.resent_at_s, message.resent_bytes, strict=True), 2):
                again = np.flatnonzero(message.attempts[of] >= number)
                sizes = size[of[again]]
                yield EventColumns(here[again], Kind.RETRANSMITTED, now_s[again] + at_s[of[again]], sizes, number, way)
        seen = np.flatnonzero(overheard_s < math.inf)
        yield EventColumns(here[seen], Kind.OVERHEARD, (now_s + overheard_s)[seen], detail=way)

    def note(self, task: TaskRecord, planned: PlannedTask, began_s: float, whole: bool) -> None:
        """Write into the record of a task that ends what its `events` mean."""
        _, _, _, download_s, compute_s, _, size, attempts, whole_down_s, part_down_s, whole_up_s, part_up_s, _ = planned
        downloaded_s = began_s + download_s
        if whole_down_s < math.inf:
            task.overheard_down_s = began_s + whole_down_s
        if whole and part_down_s < whole_down_s:
            task.overheard_down_in_part_s = began_s + part_down_s
        if compute_s == math.inf:
            return
        trained_s = downloaded_s + compute_s
        if whole:
            task.downloaded_s, task.bytes_down, task.attempts_down = downloaded_s, size, attempts
            task.training_started_s, task.trained_s = downloaded_s, trained_s
            task.upload_started_s, task.upload_bytes = trained_s, self.upload_bytes
            if part_up_s < whole_up_s:
                task.overheard_up_in_part_s = trained_s + part_up_s
        if whole_up_s < math.inf:
            task.overheard_up_s = trained_s + whole_up_s
