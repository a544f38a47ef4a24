"""The server's record of what it asked of whom, and how it ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from asyncfl.compression import Download
from asyncfl.messages import Fate, Settle, Vector


@dataclass(slots=True)
class TaskRecord:
    """A model sent to a client for training."""

    number: int
    client: int
    base_version: int
    cohort: int
    """Version at whose publication the client was drawn; -1 where clients are not drawn in cohorts."""
    sent_s: float
    arrived_s: float | None = None


class TaskTable:
    """Open tasks by number, fates counted, and the versions that open tasks were trained from.

    What was sent of a version is kept as long as an open task needs it, then forgotten. Of the newest the model itself
    is kept too.
    """

    def __init__(self) -> None:
        self.open: dict[int, TaskRecord] = {}
        self.fates: Counter[Fate] = Counter()
        self.begun = 0
        self.withdrawn = 0
        self.current: Vector = np.empty(0, dtype=np.float32)
        """(d,) the newest model, before it is made smaller for its way to clients."""
        self._downloads: dict[int, Download] = {}
        self._needed: Counter[int] = Counter()
        self._newest = -1

    def publish(self, version: int, model: Vector, download: Download | None = None) -> None:
        """Remember the newest version; forget the one before if nobody was sent it. `download`: what clients are sent
        of it; None: the model."""
        previous, self._newest = self._newest, version
        self.current = model
        self._downloads[version] = download or Download(model)
        self._forget(previous)

    def model(self, version: int) -> Vector:
        """(d,) the model that those have who were sent `version`. KeyError where no open task needs it any more."""
        return self._downloads[version].model

    def download(self, version: int) -> Download:
        """What is sent of `version`. KeyError as of `model`."""
        return self._downloads[version]

    @property
    def kept_versions(self) -> tuple[int, ...]:
        """Versions whose models are still held in memory."""
        return tuple(self._downloads)

    def begin(self, client: int, base_version: int, cohort: int, time_s: float) -> TaskRecord:
        """A new open task. Tasks are numbered 0, 1, 2, ... in the order in which they are begun."""
        task = TaskRecord(self.begun, client, base_version, cohort, time_s)
        self.begun += 1
        self.open[task.number] = task
        self._needed[base_version] += 1
        return task

    def settle(self, number: int, fate: Fate, *, weight: float = 0.0, staleness: int = -1, detail: str = "") -> Settle:
        """Close a task with its fate; the record of it, see `Settle`."""
        self._close(number)
        self.fates[fate] += 1
        return Settle(number, fate, staleness, weight, detail)

    def withdraw(self, number: int) -> TaskRecord:
        """Close a task that never began because its client could not be reached: it has no fate."""
        task = self._close(number)
        self.withdrawn += 1
        return task

    def _close(self, number: int) -> TaskRecord:
        task = self.open.pop(number)
        self._needed[task.base_version] -= 1
        self._forget(task.base_version)
        return task

    def _forget(self, version: int) -> None:
        if version != self._newest and not self._needed[version]:
            self._downloads.pop(version, None)
            self._needed.pop(version, None)

    def check(self) -> None:
        """Raise AssertionError unless each task begun is open, withdrawn or has exactly one fate."""
        accounted = len(self.open) + self.withdrawn + sum(self.fates.values())
        if accounted != self.begun:
            raise AssertionError(f"{self.begun} tasks were begun, {accounted} are accounted for")
