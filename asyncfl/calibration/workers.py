"""Estimate how many clients can compute at the same time where they share a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asyncfl.calibration.families import Floats
from asyncfl.calibration.observations import ObservedRun, trained_s

LEAST_WAIT = 0.01
"""Smallest mean wait, relative to the mean time of a training, for which clients count as sharing workers."""
LEAST_SHARE = 0.05
"""Smallest share of the waiting time during which a number of clients must compute to count as the number of workers.
It excludes the short overlaps when one client ends and the next one starts."""


@dataclass(frozen=True)
class WorkerSlots:
    workers: int | None
    """Clients that can compute at the same time; None: no client waits."""
    waits_s: Floats
    """Seconds from the arrival of a model to the start of its training."""
    turnaround_s: float
    """Mean seconds that a worker was free between two clients while a client waited."""


def fit_worker_slots(runs: Sequence[ObservedRun]) -> WorkerSlots:
    """Fit the number of workers, i.e. of clients that compute at the same time while others wait; None: none waits."""
    computations = [_Computations.of(run) for run in runs]
    waits_s = np.concatenate([one.started_s - one.arrived_s for one in computations])
    waits_s = waits_s[~np.isnan(waits_s)]
    computing_s = np.concatenate([run.tasks.training_s for run in runs])
    if not len(waits_s) or float(waits_s.mean()) <= LEAST_WAIT * float(np.nanmean(computing_s)):
        return WorkerSlots(None, waits_s, 0.0)
    by_active = [one.waiting_s_by_active() for one in computations]
    together = np.sum([np.pad(one, (0, max(map(len, by_active)) - len(one))) for one in by_active], axis=0)
    workers = int(np.flatnonzero(together > LEAST_SHARE * together.sum()).max(initial=1))
    free_times_s = [one.free_times_s(workers) for one in computations]
    # A client that arrives while a worker is free observes only part of the turnaround.
    seen = np.concatenate([found for found, _ in free_times_s])
    if not len(seen):
        seen = np.concatenate([found for _, found in free_times_s])
    return WorkerSlots(workers, waits_s, max(0.0, float(seen.mean())) if len(seen) else 0.0)


@dataclass(frozen=True)
class _Computations:
    """Computations of one run, as columns: arrival, start and end. NaN: the client left before the start."""

    arrived_s: Floats
    started_s: Floats
    ended_s: Floats

    @classmethod
    def of(cls, run: ObservedRun) -> _Computations:
        tasks = run.tasks
        came = ~np.isnan(tasks.downloaded_s)
        return cls(tasks.downloaded_s[came], tasks.training_started_s[came], trained_s(tasks)[came])

    def waiting_s_by_active(self) -> Floats:
        """Return the seconds during which a client waited while n = 0, 1, ... clients computed, (largest n + 1,)."""
        computes = ~np.isnan(self.started_s)
        # A client that goes offline while it waits leaves the queue without taking a worker.
        at_s = np.concatenate([self.arrived_s, np.where(computes, self.started_s, self.ended_s), self.ended_s])
        zeros = np.zeros(len(self.arrived_s))
        waiting = np.concatenate([zeros + 1, zeros - 1, zeros])
        inside = np.concatenate([zeros, computes, -computes.astype(np.float64)])
        order = np.argsort(at_s, kind="stable")
        queue, active = np.cumsum(waiting[order])[:-1], np.cumsum(inside[order])[:-1]
        some = (queue > 0) & (active > 0)
        return np.bincount(active[some].astype(np.int64), np.diff(at_s[order])[some], 2).astype(np.float64)

    def free_times_s(self, workers: int) -> tuple[Floats, Floats]:
        """Compute how long workers were free before a waiting client took them.

        Returns the times for clients that waited before the worker became free, and for clients that arrived later.
        First come, first served: the next worker to be used is the one that became free first.
        """
        computes = ~np.isnan(self.started_s)
        order = np.argsort(self.started_s[computes], kind="stable")
        arrived_s, started_s = self.arrived_s[computes][order][workers:], self.started_s[computes][order][workers:]
        left_s = np.sort(self.ended_s[computes])[: len(started_s)]
        before, waited = arrived_s <= left_s, started_s > arrived_s
        return (started_s - left_s)[before], (started_s - left_s)[~before & waited]
