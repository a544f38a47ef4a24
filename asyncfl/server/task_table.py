"""The server's table of tasks: which client has which task, and how each task ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from asyncfl.base.messages import Fate, Settle, Vector
from asyncfl.compression import Download


@dataclass(slots=True)
class TaskRecord:
    """A model that was sent to a client for training."""

    number: int
    client: int
    base_version: int
    cohort: int
    """Version at whose publication the client was drawn; -1 without cohorts."""
    sent_s: float
    """Time of the dispatch in seconds."""
    arrived_s: float | None = None
    """Time at which the update arrived in seconds; None before."""


class TaskTable:
    """Open tasks by number, counts of fates, and the versions that open tasks are trained from.

    The model that clients were sent of a version is kept as long as an open task needs it. The newest model itself is
    kept too.
    """

    def __init__(self) -> None:
        self.open: dict[int, TaskRecord] = {}
        self.fates: Counter[Fate] = Counter()
        self.begun = 0
        """Number of tasks so far, including withdrawn ones."""
        self.withdrawn = 0
        """Number of tasks that never began because their client could not be reached."""
        self.current: Vector = np.empty(0, dtype=np.float32)
        """(d,) the newest model, before compression for download."""
        self._downloads: dict[int, Download] = {}
        self._needed: Counter[int] = Counter()
        self._newest = -1

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

    def begin(self, client: int, base_version: int, cohort: int, time_s: float) -> TaskRecord:
        """Add an open task and return it. Tasks are numbered 0, 1, 2, ... in the order in which they begin.

        `base_version`: version that the client is sent; `cohort`: see `TaskRecord`.
        """
        task = TaskRecord(self.begun, client, base_version, cohort, time_s)
        self.begun += 1
        self.open[task.number] = task
        self._needed[base_version] += 1
        return task

    def settle(self, number: int, fate: Fate, *, weight: float = 0.0, staleness: int = -1, detail: str = "") -> Settle:
        """Close a task with its fate, and return the action that records it, see `Settle`."""
        self._close(number)
        self.fates[fate] += 1
        return Settle(number, fate, staleness, weight, detail)

    def withdraw(self, number: int) -> TaskRecord:
        """Close a task that never began because its client could not be reached, and return it.

        It has no fate, and is counted in `withdrawn` instead.
        """
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
        """Raise AssertionError unless each task is open, withdrawn or has exactly one fate."""
        accounted = len(self.open) + self.withdrawn + sum(self.fates.values())
        if accounted != self.begun:
            raise AssertionError(f"{self.begun} tasks were begun, {accounted} are accounted for")
