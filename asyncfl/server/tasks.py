"""The table of tasks: one record for each task from its dispatch to its fate.

Server, driver, clients and ledger share the records. Fates are counted here alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from asyncfl.base.messages import Download, Fate, Settle, Vector


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
        self.settled: dict[int, TaskRecord] = {}
        """Tasks whose fate the driver has yet to record, and then removes here."""
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
        self._collected: Sequence[TaskRecord] = ()
        self._downloads: dict[int, Download] = {}
        self._needed: Counter[int] = Counter()
        self._newest = -1

    def __contains__(self, number: int) -> bool:
        """Whether the driver has yet to record the fate of that task."""
        return number in self.open or number in self.settled

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
        if (task := self.unanswered.pop(number, None)) is not None:
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
        self.settled[number] = self._close(number)
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

    def collect(self, numbers: tuple[int, ...]) -> Sequence[TaskRecord]:
        """Return the tasks of a buffer that is collected, in its order. `collected` yields them from then on."""
        self._collected = [self.open[number] for number in numbers]
        return self._collected

    def collected(self) -> Iterator[TaskRecord]:
        """Yield the tasks of the last collected buffer whose fate is not recorded yet."""
        return (task for task in self._collected if task.number in self)
