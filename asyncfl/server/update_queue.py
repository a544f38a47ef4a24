"""Updates that have arrived and wait: in the buffer that is being filled, or in the queue behind one that is open.

While a buffer is open, arrivals queue in their order; when its version is out, they enter the next. Staleness is
counted against the version that a buffer makes its updates part of, and is therefore known when an update enters it.
"""

from __future__ import annotations

from asyncfl.server.task_table import TaskRecord


class UpdateQueue:
    """The buffer of one server and the queue behind it. `max_staleness`: in versions; None: no update is too old."""

    def __init__(self, max_staleness: int | None = None) -> None:
        self.max_staleness = max_staleness
        self._buffer: list[TaskRecord] = []
        self._queue: list[TaskRecord] = []

    def __len__(self) -> int:
        """Updates that wait, in buffer and queue."""
        return len(self._buffer) + len(self._queue)

    @property
    def held(self) -> int:
        """Updates in the buffer."""
        return len(self._buffer)

    def enter(self, task: TaskRecord, version: int) -> bool:
        """Put an update into the buffer that is filled for `version`; False: it is too old, and is not kept."""
        if self.max_staleness is not None and version - task.base_version > self.max_staleness:
            return False
        self._buffer.append(task)
        return True

    def queue(self, task: TaskRecord) -> None:
        """Have an update wait for the buffer after the one that is open."""
        self._queue.append(task)

    def take(self, count: int) -> list[TaskRecord]:
        """The first `count` updates of the buffer, which is empty then; what it held beyond them heads the queue."""
        taken, rest = self._buffer[:count], self._buffer[count:]
        self._buffer, self._queue = [], rest + self._queue
        return taken

    def admit(self, version: int) -> list[TaskRecord]:
        """Have the queue enter the buffer that is filled for `version`; the updates that are too old for it."""
        queued, self._queue = self._queue, []
        return [task for task in queued if not self.enter(task, version)]

    def remove(self, client: int) -> list[TaskRecord]:
        """All updates of `client`, which wait no longer: those of the buffer, then those of the queue."""
        removed = [task for task in [*self._buffer, *self._queue] if task.client == client]
        self._buffer = [task for task in self._buffer if task.client != client]
        self._queue = [task for task in self._queue if task.client != client]
        return removed

    def clear(self) -> list[TaskRecord]:
        """All updates, which wait no longer: those of the buffer, then those of the queue."""
        removed = [*self._buffer, *self._queue]
        self._buffer, self._queue = [], []
        return removed
