"""Estimate how many clients can compute at the same time where they share a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asyncfl.calibration.observations import Floats, ObservedRun

LEAST_WAIT = 0.01
"""Smallest mean wait, relative to the mean time of a training, for which clients count as sharing workers."""
LEAST_SHARE = 0.05
"""Smallest share of the waiting time during which a number of clients must compute to count as the number of workers.
It excludes the short overlaps when one client ends and the next one starts."""


@dataclass(frozen=True)
class WorkerSlots:
    """Fitted number of workers, and waiting times."""

    workers: int | None
    """Clients that can compute at the same time; None: no client waits."""
    waits_s: Floats
    """Seconds from the arrival of a model to the start of its training."""
    turnaround_s: float
    """Mean seconds that a worker was free between two clients while a client waited."""


def fit_worker_slots(runs: Sequence[ObservedRun]) -> WorkerSlots:
    """Determine whether clients wait for a worker, and how many workers there are."""
    turns = [_Turns.of(run) for run in runs]
    waits_s = np.concatenate([one.began_s - one.came_s for one in turns])
    waits_s = waits_s[~np.isnan(waits_s)]
    computing_s = np.concatenate([run.tasks.training_s for run in runs])
    shared = len(waits_s) > 0 and float(waits_s.mean()) > LEAST_WAIT * float(np.nanmean(computing_s))
    if not shared:
        return WorkerSlots(None, waits_s, 0.0)
    held_s = [one.held_s() for one in turns]
    together = np.sum([np.pad(one, (0, max(map(len, held_s)) - len(one))) for one in held_s], axis=0)
    places = int(np.flatnonzero(together > LEAST_SHARE * together.sum()).max(initial=1))
    empty_s = [one.empty_s(places) for one in turns]
    # A client that arrives while a worker is free observes only part of the turnaround.
    seen = np.concatenate([found for found, _ in empty_s])
    if not len(seen):
        seen = np.concatenate([found for _, found in empty_s])
    return WorkerSlots(places, waits_s, max(0.0, float(seen.mean())) if len(seen) else 0.0)


@dataclass(frozen=True)
class _Turns:
    """Computations of one run, as columns: arrival, start and end. NaN: the client left before the start."""

    came_s: Floats
    began_s: Floats
    ended_s: Floats

    @classmethod
    def of(cls, run: ObservedRun) -> _Turns:
        tasks = run.tasks
        came = ~np.isnan(tasks.downloaded_s)
        left_s = np.where(np.isnan(tasks.left_s), tasks.end_s, tasks.left_s)
        ended_s = np.where(np.isnan(tasks.trained_s), left_s, tasks.trained_s)
        return cls(tasks.downloaded_s[came], tasks.training_started_s[came], ended_s[came])

    def held_s(self) -> Floats:
        """Sum the seconds during which a client waited, by the number of clients that computed meanwhile."""
        computes = ~np.isnan(self.began_s)
        # A client that goes offline while it waits leaves the queue without taking a worker.
        at_s = np.concatenate([self.came_s, np.where(computes, self.began_s, self.ended_s), self.ended_s])
        zeros = np.zeros(len(self.came_s))
        waiting = np.concatenate([zeros + 1, zeros - 1, zeros])
        inside = np.concatenate([zeros, computes, -computes.astype(np.float64)])
        order = np.argsort(at_s, kind="stable")
        queue, taken = np.cumsum(waiting[order])[:-1], np.cumsum(inside[order])[:-1]
        some = (queue > 0) & (taken > 0)
        held_s = np.bincount(taken[some].astype(np.int64), np.diff(at_s[order])[some], 2)
        return np.asarray(held_s, dtype=np.float64)

    def empty_s(self, places: int) -> tuple[Floats, Floats]:
        """Compute how long workers were free before a waiting client took them.

        Returns the times for clients that waited before the worker became free, and for clients that arrived later.
        First come, first served: the worker taken next is the one that became free first.
        """
        computes = ~np.isnan(self.began_s)
        order = np.argsort(self.began_s[computes], kind="stable")
        came_s, began_s = self.came_s[computes][order][places:], self.began_s[computes][order][places:]
        left_s = np.sort(self.ended_s[computes])[: len(began_s)]
        before, waited = came_s <= left_s, began_s > came_s
        return (began_s - left_s)[before], (began_s - left_s)[~before & waited]
