"""Updates that have arrived: in the buffer that is being filled, or in the queue behind a buffer that is being
aggregated.

During an aggregation, arrivals queue in their order, and enter the next buffer when the version is published. Staleness
is counted against the version that a buffer makes, so it is known when an update enters the buffer.
"""

from __future__ import annotations

from asyncfl.server.task_table import TaskRecord


class UpdateQueue:
    """The buffer of one server and the queue behind it. `max_staleness`: in versions; None for no limit."""

    def __init__(self, max_staleness: int | None = None) -> None:
        self.max_staleness = max_staleness
        self._buffer: list[TaskRecord] = []
        self._queue: list[TaskRecord] = []

    def __len__(self) -> int:
        """Return the number of updates in buffer and queue."""
        return len(self._buffer) + len(self._queue)

    @property
    def held(self) -> int:
        """Number of updates in the buffer."""
        return len(self._buffer)

    def enter(self, task: TaskRecord, version: int) -> bool:
        """Add an update to the buffer for `version`. Returns False if it is too old and was not added."""
        if self.max_staleness is not None and version - task.base_version > self.max_staleness:
            return False
        self._buffer.append(task)
        return True

    def queue(self, task: TaskRecord) -> None:
        """Append an update to the queue behind the buffer."""
        self._queue.append(task)

    def take(self, count: int) -> list[TaskRecord]:
        """Remove and return the first `count` updates of the buffer; the rest of the buffer goes to the head of the
        queue."""
        taken, rest = self._buffer[:count], self._buffer[count:]
        self._buffer, self._queue = [], rest + self._queue
        return taken

    def admit(self, version: int) -> list[TaskRecord]:
        """Move the queue into the buffer for `version`, and return the updates that are too old for it."""
        queued, self._queue = self._queue, []
        return [task for task in queued if not self.enter(task, version)]

    def remove(self, client: int) -> list[TaskRecord]:
        """Remove and return all updates of `client`: those of the buffer, then those of the queue."""
        removed = [task for task in [*self._buffer, *self._queue] if task.client == client]
        self._buffer = [task for task in self._buffer if task.client != client]
        self._queue = [task for task in self._queue if task.client != client]
        return removed

    def clear(self) -> list[TaskRecord]:
        """Remove and return all updates: those of the buffer, then those of the queue."""
        removed = [*self._buffer, *self._queue]
        self._buffer, self._queue = [], []
        return removed
