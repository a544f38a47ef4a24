"""Fit the trainings of clients: speeds and jitter of tasks, trainings at a time on a shared machine, dropouts.

The time of a training is work x seconds per sample of the client x a factor of the task with mean 1. The factor has the
same law for all clients, so it is fitted to all trainings together: the logarithm of time over work, minus the mean of
the client, times sqrt(n / (n - 1)) to correct for the error of that mean. A client's speed is the mean of its
trainings. A training cut off after more than that time counts with its observed time, so that slow tasks are not
ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.calibration.families import SAME, FittedShape, Floats, fit_distribution, of_mean_one
from asyncfl.calibration.observations import Ints, ObservedRun, left_s, trained_s
from asyncfl.trace.events import NO_EPOCH, Kind

Work: TypeAlias = Callable[[int, Floats, Floats], Floats]
"""(index of a run, starts, ends) -> seconds of work on an unshared processor in each interval."""

LEAST_WAIT = 0.01
"""Smallest mean wait, relative to the mean time of a training, for which clients count as sharing workers."""
LEAST_SHARE = 0.05
"""Smallest share of the waiting time during which a number of clients must compute to count as the number of workers.
It excludes the short overlaps when one client ends and the next one starts."""


@dataclass(frozen=True)
class Trainings:
    client: Ints
    work: Floats  # samples times epochs
    seconds: Floats  # seconds on an unshared processor
    seen: NDArray[np.bool_]  # whether the training finished; otherwise it would have taken longer


def trainings_of(runs: Sequence[ObservedRun], work: Work) -> Trainings:
    """Return all started trainings of all runs, except those without samples.

    `work`: function that turns intervals of a run into seconds of work on an unshared processor, see `Work`.
    """
    parts = []
    for place, run in enumerate(runs):
        begun = ~np.isnan(run.tasks.training_started_s) & (run.work > 0)
        tasks = run.tasks.only(begun)
        seconds = work(place, tasks.training_started_s, trained_s(tasks))
        parts.append((tasks.client, run.work[begun], seconds, run.training_finished[begun]))
    client, asked, seconds, seen = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Trainings(client, asked, seconds.astype(np.float64), seen)


@dataclass(frozen=True)
class FittedSpeeds:
    s_per_sample: Floats
    """(clients,) mean seconds per sample and epoch; for clients without a finished training, the median of the
    others."""
    unseen: tuple[int, ...]
    population: FittedShape  # distribution of the speeds of the other clients
    jitter: FittedShape  # distribution of the factor of a task, with mean 1
    trainings: int


def fit_speeds(clients: int, trainings: Trainings) -> FittedSpeeds:
    """Fit the speed of each client, and the distribution of the task factor that all clients share.

    `clients`: number of clients. At least one training must have finished.
    """
    seen, client = trainings.seen, trainings.client[trainings.seen]
    rate = trainings.seconds / trainings.work
    number = np.bincount(client, minlength=clients)
    known = number > 0
    jitter = _jitter(np.log(np.maximum(rate[seen], 1e-12)), client, number)
    speed = np.bincount(client, rate[seen], minlength=clients) / np.maximum(number, 1)
    if not jitter.distribution.is_constant:
        # Trainings that were cut off later than the mean count too.
        longer = ~seen & (rate > speed[trainings.client]) & known[trainings.client]
        total, late = speed * number, trainings.client[longer]
        np.add.at(total, late, rate[longer])
        speed = np.asarray(total / np.maximum(number + np.bincount(late, minlength=clients), 1))
    speed[~known] = float(np.median(speed[known]))
    speed = np.maximum(speed, 1e-12)
    unseen = tuple(np.flatnonzero(~known).tolist())
    return FittedSpeeds(speed, unseen, fit_distribution(speed[known]), jitter, int(seen.sum()))


def _jitter(logs: Floats, client: Ints, number: Ints) -> FittedShape:
    """Fit the distribution of the task factor, with mean 1, to clients with at least two finished trainings.

    `logs`: (finished,) logarithms of the seconds per sample and epoch; `client`: (finished,) client of each; `number`:
    (clients,) their finished trainings.
    """
    n = number[client]
    if not (n > 1).any():
        return fit_distribution(np.ones(1))
    means = np.bincount(client, logs, minlength=len(number)) / np.maximum(number, 1)
    apart = ((logs - means[client]) * np.sqrt(n / np.maximum(n - 1, 1)))[n > 1]
    if np.abs(apart).max() <= SAME:
        return fit_distribution(np.ones(len(apart)))
    factors = np.exp(apart)
    made = fit_distribution(factors / factors.mean())
    expected = made.expected / made.distribution.expected()
    return replace(made, distribution=of_mean_one(made.distribution), expected=expected)


@dataclass(frozen=True)
class WorkerSlots:
    workers: int | None  # clients that can compute at the same time; None: no client waits
    waits_s: Floats  # seconds from the arrival of a model to the start of its training
    turnaround_s: float  # mean seconds that a worker was free between two clients while a client waited


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


@dataclass(frozen=True)
class DropoutRates:
    """Fitted dropout of clients that stay online."""

    dropout: float
    dropout_per_s: float  # rate of dropouts per second of a task
    times: int


def fit_dropout(runs: Sequence[ObservedRun], trainings: Trainings, s_per_sample: Floats) -> DropoutRates:
    """Fit dropouts by maximum likelihood: a probability per training or a rate per second, whichever is likelier.

    s_per_sample: (clients,) fitted seconds per sample and epoch.
    """
    in_training, elsewhere, at_s, begun = 0, 0, 0.0, len(trainings.client)
    log_density = 0.0
    for run in runs:
        tasks, rows = run.tasks, run.rows(Kind.DROPPED_OUT)
        details = run.events["detail"].take(rows).to_pylist()
        for number, sent, detail in zip(run.column("task")[rows], run.column("bytes")[rows], details, strict=True):
            if detail in ("offline", "left", NO_EPOCH) or number < 0:
                continue
            if sent >= 0:
                elsewhere += 1
                continue
            in_training += 1
            place = int(np.flatnonzero(tasks.task == number)[0])
            log_density -= math.log(max(float(run.work[place] * s_per_sample[tasks.client[place]]), 1e-12))
        # All clients together spent this on tasks, from dispatch to the end of their work.
        at_s += float((left_s(tasks) - tasks.dispatched_s).sum())
    times = in_training + elsewhere
    if times == 0:
        return DropoutRates(0.0, 0.0, 0)
    rate, p = times / max(at_s, 1e-12), in_training / begun
    if elsewhere == 0 and p < 1:
        by_task = in_training * math.log(p) + (begun - in_training) * math.log1p(-p) + log_density
        if by_task >= times * math.log(rate) - rate * at_s:
            return DropoutRates(p, 0.0, times)
    return DropoutRates(0.0, rate, times)
