"""Plans of many tasks at once, in columns, from draws of a block (`world.task_blocks`).

A task in columns does the `STEPS` of any task: the same times, to the last bit, and the same events. Only plain tasks
are here, whose client neither drops out nor stops at a deadline nor is faster than usual; the others are planned one at
a time (`phases.TaskPlan`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from asyncfl.base.arrays import Floats, Ints
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.task_record import EventColumns
from asyncfl.simulation.phases import STEPS, Way, Workload
from asyncfl.world.task_blocks import DrawnTasks
from asyncfl.world.transfer_block import TransferColumns


class TaskColumns:
    """Plans of the plain tasks of a block, without the times at which they begin."""

    def __init__(self, drawn: DrawnTasks, load: Workload, tasks: Sequence[tuple[int, int]], whole: bool) -> None:
        """`tasks`: client and turn of each; `whole`: see `TaskPlan.of`."""
        self.clients = drawn.clients
        self._messages: dict[Way, TransferColumns] = {"down": drawn.down, "up": drawn.up}
        self._compute_s, self._whole = drawn.compute_s, whole
        plain = drawn.are_plain
        if load.deadline_s is not None:
            plain = plain & (drawn.compute_s <= load.deadline_s)
        self._rows = {tasks[row]: row for row in np.flatnonzero(plain).tolist()}
        """Client and turn -> row of a task that has not begun."""
        # As lists, since they are read one at a time.
        down, up = drawn.down, drawn.up
        self._arrives_down: list[bool] = down.delivered.tolist()
        self._seconds: tuple[list[float], ...] = tuple(
            one.tolist() for one in (down.duration_s, drawn.compute_s, up.duration_s)
        )
        self._sent: dict[Way, tuple[list[bool], list[int], list[int]]] = {
            way: (one.delivered.tolist(), one.sent_bytes.tolist(), one.attempts.tolist())
            for way, one in self._messages.items()
        }

    def take(self, client: int, turn: int) -> int | None:
        """Remove a task that begins, and return its row; None if it is not one of these."""
        return self._rows.pop((client, turn), None)

    def times(self, row: int, began_s: float) -> tuple[float, float]:
        """Return when a task that begins at `began_s` has its model, inf: never, and when it ends."""
        download_s, compute_s, upload_s = self._seconds
        downloaded_s = began_s + download_s[row]
        if self._arrives_down[row]:
            return downloaded_s, downloaded_s + compute_s[row] + upload_s[row]
        return math.inf, downloaded_s

    def sent_down(self, row: int) -> int:
        """Return the bytes of a model that are sent, with retransmissions."""
        return self._sent["down"][1][row]

    def last(self, row: int) -> tuple[Kind, Fate | None, Way, int, int]:
        """Return the event with which a task ends, an upload or a message that is lost: its kind, the fate of a task
        that fails, direction, bytes and number of the transmissions."""
        step = STEPS[-1] if self._arrives_down[row] else STEPS[0]
        assert step.way is not None
        arrives, sent_bytes, attempts = self._sent[step.way]
        if arrives[row]:
            return step.ends, None, step.way, sent_bytes[row], attempts[row]
        return Kind.LOST, step.lost, step.way, sent_bytes[row], attempts[row]

    def events(self, rows: Ints, began_s: Floats) -> Iterator[EventColumns]:
        """Yield the events from begin to before the end of the tasks in `rows` (n,), which began at `began_s` (n,).
        Those of one task and one time are in their order."""
        here, now_s, whole = np.arange(len(rows)), began_s, self._whole
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
            if whole:
                yield EventColumns(here, step.begins, now_s, message.payload_bytes)
            yield from self._marks(message, step.way, here, of, now_s)
            arrives = message.delivered[of]
            now_s, here, of = (now_s + message.duration_s[of])[arrives], here[arrives], of[arrives]
            if whole and step is not STEPS[-1]:
                sent, attempts = message.sent_bytes[of], message.attempts[of]
                yield EventColumns(here, step.ends, now_s, sent, attempts, step.way)

    def last_events(self, rows: Ints, ended_s: Floats) -> Iterator[EventColumns]:
        """Yield the events with which the tasks in `rows` (n,) end at `ended_s` (n,), see `last`."""
        arrives_down = self._messages["down"].delivered[rows]
        for step, here in ((STEPS[0], np.flatnonzero(~arrives_down)), (STEPS[-1], np.flatnonzero(arrives_down))):
            assert step.way is not None
            message = self._messages[step.way]
            arrives = message.delivered[rows[here]]
            for kind, chosen in ((step.ends, here[arrives]), (Kind.LOST, here[~arrives])):
                of = rows[chosen]
                yield EventColumns(
                    chosen, kind, ended_s[chosen], message.sent_bytes[of], message.attempts[of], step.way
                )

    def _marks(self, message: TransferColumns, way: Way, here: Ints, of: Ints, now_s: Floats) -> Iterator[EventColumns]:
        """Yield the events of messages that are sent at `now_s` (n,), see `LinkMessage.events_from`. `here`, `of`: (n,)
        index of each task among those asked for, and among all."""
        overheard_s, caught_s = message.overheard_s[of], message.caught_s[of]
        if self._whole:
            seen = np.flatnonzero(caught_s < overheard_s)
            yield EventColumns(here[seen], Kind.OVERHEARD_IN_PART, (now_s + caught_s)[seen], detail=way)
            for number, (at_s, size) in enumerate(zip(message.resent_at_s, message.resent_bytes, strict=True), 2):
                again = np.flatnonzero(message.attempts[of] >= number)
                sizes = size[of[again]]
                yield EventColumns(here[again], Kind.RETRANSMITTED, now_s[again] + at_s[of[again]], sizes, number, way)
        seen = np.flatnonzero(overheard_s < math.inf)
        yield EventColumns(here[seen], Kind.OVERHEARD, (now_s + overheard_s)[seen], detail=way)
