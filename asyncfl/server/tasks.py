"""The table of tasks: one record for each task from its dispatch to its fate, and the updates that have arrived.

Server, driver, clients and ledger share the records. Fates are counted here alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from asyncfl.base.messages import Download, Fate, Settle, Vector

LEAST_TASKS = 10_000
"""Failed tasks in succession after which a run is given up. If one task in 1000 succeeds, a succession is that long
with probability 5e-5."""
TASKS_PER_CLIENT = 10
"""The same per client of a large federation, so that each client has been asked several times."""


@dataclass(slots=True, eq=False)
class TaskRecord:
    """A model that was sent to a client for training, until the fate of its update is recorded."""

    number: int
    client: int
    base_version: int
    turn: int = 0
    """Number of tasks that the client was given before."""
    cohort: int = -1
    """Version at whose publication the client was drawn; -1 without cohorts."""
    sent_s: float = 0.0
    """Time of the dispatch in seconds."""
    epochs: int | None = None
    """Epochs that the client has done when it stopped; None for all."""
    base: Vector | None = field(default=None, repr=False)
    """The model that the client was sent, kept if it must train even after the server has forgotten that version."""
    trained: bool = False
    """Whether the client has already trained this task, or may have done so."""
    overheard: bool = False
    """Whether the eavesdropper holds its update."""


class TaskTable:
    """The tasks of one run, and the versions that open tasks are trained from.

    A task is open until its fate is known, in flight until its update arrives or is known to be lost, and unanswered
    until its client reports its end, whatever its fate. The model that clients were sent of a version is kept as long
    as an open task needs it. The newest model is always kept.
    """

    def __init__(self) -> None:
        self.open: dict[int, TaskRecord] = {}
        self.in_flight: dict[int, TaskRecord] = {}
        self.unanswered: dict[int, TaskRecord] = {}
        self.busy: Counter[int] = Counter()
        """Client -> number of its unanswered tasks."""
        self.fates: Counter[Fate] = Counter()
        self.used = 0
        """Number of tasks whose update had a weight above 0 in a model."""
        self.begun = 0
        """Number of tasks so far, including withdrawn ones."""
        self.withdrawn = 0
        """Number of tasks that never began because their client could not be reached."""
        self.current: Vector = np.empty(0, dtype=np.float32)
        """(d,) the newest model, before compression for download."""
        self._settled: dict[int, TaskRecord] = {}
        self._collected: Sequence[TaskRecord] = ()
        self._downloads: dict[int, Download] = {}
        self._needed: Counter[int] = Counter()
        self._newest = -1

    # --- models ----------------------------------------------------------------------------------------------------

    def publish(self, version: int, model: Vector, download: Download | None = None) -> None:
        """Store the newest version; forget the previous one if no open task needs it. `download`: the compressed model
        that clients are sent; None if they are sent `model`."""
        previous, self._newest = self._newest, version
        self.current = model
        self._downloads[version] = download or Download(model)
        self._forget(previous)

    def model(self, version: int) -> Vector:
        """Return the (d,) model that clients were sent as `version`. Raises KeyError if no open task needs it."""
        return self._downloads[version].model

    def download(self, version: int) -> Download:
        """Return the download of `version`. Raises KeyError if no open task needs it."""
        return self._downloads[version]

    @property
    def kept_versions(self) -> tuple[int, ...]:
        """Versions whose models are in memory."""
        return tuple(self._downloads)

    def _forget(self, version: int) -> None:
        if version != self._newest and not self._needed[version]:
            self._downloads.pop(version, None)
            self._needed.pop(version, None)

    # --- from dispatch to fate -------------------------------------------------------------------------------------

    def begin(self, client: int, base_version: int, turn: int = 0, cohort: int = -1, time_s: float = 0.0) -> TaskRecord:
        """Add a task and return it. Tasks are numbered 0, 1, 2, ... in the order in which they begin."""
        task = TaskRecord(self.begun, client, base_version, turn, cohort, time_s)
        self.begun += 1
        self.open[task.number] = self.in_flight[task.number] = self.unanswered[task.number] = task
        self.busy[client] += 1
        self._needed[base_version] += 1
        return task

    def answer(self, number: int) -> None:
        """Record that the client has reported the end of a task. No effect if it had before."""
        task = self.unanswered.pop(number, None)
        if task is not None:
            self.busy[task.client] -= 1

    def unanswered_of(self, client: int) -> tuple[int, ...]:
        """Return the tasks that the client has not answered."""
        return tuple(number for number, task in self.unanswered.items() if task.client == client)

    def withdraw(self, number: int) -> None:
        """Remove a task that never began because its client could not be reached. It has no fate."""
        self._close(number)
        self.withdrawn += 1

    def settle(self, number: int, fate: Fate, *, weight: float = 0.0, staleness: int = -1, detail: str = "") -> Settle:
        """Close a task with its fate, and return the action that records it, see `Settle`."""
        self._settled[number] = self._close(number)
        self.fates[fate] += 1
        self.used += weight > 0
        return Settle(number, fate, staleness, weight, detail)

    def _close(self, number: int) -> TaskRecord:
        task = self.open.pop(number)
        self._needed[task.base_version] -= 1
        self._forget(task.base_version)
        return task

    def check(self) -> None:
        """Raise AssertionError unless each task is open, withdrawn or has exactly one fate."""
        accounted = len(self.open) + self.withdrawn + sum(self.fates.values())
        if accounted != self.begun:
            raise AssertionError(f"{self.begun} tasks were begun, {accounted} are accounted for")

    # --- for the driver --------------------------------------------------------------------------------------------

    def __contains__(self, number: int) -> bool:
        """Whether the driver has yet to record the fate of that task."""
        return number in self.open or number in self._settled

    def collect(self, numbers: tuple[int, ...]) -> Sequence[TaskRecord]:
        """Return the tasks of a buffer that is collected, in its order. `collected` yields them from then on."""
        self._collected = [self.open[number] for number in numbers]
        return self._collected

    def collected(self) -> Iterator[TaskRecord]:
        """Yield the tasks of the last collected buffer whose fate is not recorded yet."""
        return (task for task in self._collected if task.number in self)

    def record(self, number: int) -> TaskRecord:
        """Return a task whose fate the driver records now, and forget it."""
        return self._settled.pop(number)


class UpdateQueue:
    """Updates that have arrived: in the buffer that is being filled, or in the queue behind a buffer that is being
    aggregated. The queue enters the next buffer when the version is published.

    Staleness is counted against the version that a buffer makes, so it is known when an update enters the buffer.
    `max_staleness`: in versions; None for no limit.
    """

    def __init__(self, max_staleness: int | None = None) -> None:
        self.max_staleness = max_staleness
        self.buffer: list[TaskRecord] = []
        self.waiting: list[TaskRecord] = []

    def __len__(self) -> int:
        return len(self.buffer) + len(self.waiting)

    def enter(self, task: TaskRecord, version: int) -> bool:
        """Add an update to the buffer for `version`. Returns False if it is too old and was not added."""
        if self.max_staleness is not None and version - task.base_version > self.max_staleness:
            return False
        self.buffer.append(task)
        return True

    def take(self, count: int) -> list[TaskRecord]:
        """Remove and return the first `count` updates of the buffer; the others go to the head of the queue."""
        taken, rest = self.buffer[:count], self.buffer[count:]
        self.buffer, self.waiting = [], rest + self.waiting
        return taken

    def admit(self, version: int) -> list[TaskRecord]:
        """Move the queue into the buffer for `version`, and return the updates that are too old for it."""
        queued, self.waiting = self.waiting, []
        return [task for task in queued if not self.enter(task, version)]

    def remove(self, client: int | None = None) -> list[TaskRecord]:
        """Remove and return all updates of `client`, or of all clients: those of the buffer, then those of the
        queue."""
        every = [*self.buffer, *self.waiting]
        self.buffer = [task for task in self.buffer if client not in (None, task.client)]
        self.waiting = [task for task in self.waiting if client not in (None, task.client)]
        return [task for task in every if client in (None, task.client)]


class FailedTasks:
    """Counter of the tasks of a run that failed since the last update arrived.

    If all clients are offline, the links lose everything or every task exceeds its lease, the run would never end: each
    failed task is followed by another. Such a run stops with the reason.
    """

    def __init__(self, clients: int) -> None:
        self.limit = max(LEAST_TASKS, TASKS_PER_CLIENT * clients)
        self._failed: Counter[Fate] = Counter()

    def arrived(self) -> None:
        """Record that an update arrived for which the server waited."""
        self._failed.clear()

    def ended(self, fate: Fate) -> None:
        """Record that a task ended without an update."""
        self._failed[fate] += 1

    @property
    def why_stop(self) -> str | None:
        """Reason to stop the run; None to go on."""
        if self._failed.total() < self.limit:
            return None
        fates = ", ".join(f"{number} {fate.value}" for fate, number in sorted(self._failed.items()))
        return f"no update reached the server in the last {self._failed.total()} tasks ({fates})"
