"""Fit the trainings of clients: speeds and jitter of tasks, trainings at a time on a shared machine.

The time of a training is work x seconds per sample of the client x a factor of the task with mean 1. The factor has the
same law for all clients, so it is fitted to all trainings together: the logarithm of time over work, minus the mean of
the client, times sqrt(n / (n - 1)) to correct for the error of that mean. A client's speed is the mean of its
trainings. A training cut off after more than that time counts with its observed time, so that slow tasks are not
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.extras.calibration.families import SAME, FittedShape, Floats, fit_distribution, of_mean_one
from asyncfl.extras.calibration.observations import Ints, ObservedRun, trained_s

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
    return replace(made, distribution=of_mean_one(made.distribution))


@dataclass(frozen=True)
class WorkerSlots:
    workers: int | None  # clients that can compute at the same time; None: no client waits
    waits_s: Floats  # seconds from the arrival of a model to the start of its training
    turnaround_s: float  # mean seconds that a worker was free between two clients while a client waited


def fit_worker_slots(runs: Sequence[ObservedRun]) -> WorkerSlots:
    """Fit the number of workers, i.e. of clients that compute at the same time while others wait; None: none waits."""
    columns = [_computations(run) for run in runs]
    waits_s = np.concatenate([started_s - arrived_s for arrived_s, started_s, _ in columns])
    waits_s = waits_s[~np.isnan(waits_s)]
    computing_s = np.concatenate([run.tasks.training_s for run in runs])
    if not len(waits_s) or float(waits_s.mean()) <= LEAST_WAIT * float(np.nanmean(computing_s)):
        return WorkerSlots(None, waits_s, 0.0)
    active, waited_s = (np.concatenate(parts) for parts in zip(*(_waiting(*one) for one in columns), strict=True))
    together = np.bincount(active, waited_s, 2)
    workers = int(np.flatnonzero(together > LEAST_SHARE * together.sum()).max(initial=1))
    free_s, whole = (np.concatenate(parts) for parts in zip(*(_free(*one, workers) for one in columns), strict=True))
    # A client that arrives while a worker is free observes only part of the turnaround.
    seen = free_s[whole] if whole.any() else free_s
    return WorkerSlots(workers, waits_s, max(0.0, float(seen.mean())) if len(seen) else 0.0)


def _computations(run: ObservedRun) -> tuple[Floats, Floats, Floats]:
    """Return arrival, start and end of the computations of one run. NaN: the client left before the start."""
    tasks, came = run.tasks, ~np.isnan(run.tasks.downloaded_s)
    return tasks.downloaded_s[came], tasks.training_started_s[came], trained_s(tasks)[came]


def _waiting(arrived_s: Floats, started_s: Floats, ended_s: Floats) -> tuple[Ints, Floats]:
    """Return how many clients computed in each interval in which a client waited, and its length, seconds."""
    computes = ~np.isnan(started_s)
    # A client that goes offline while it waits leaves the queue without taking a worker.
    at_s = np.concatenate([arrived_s, np.where(computes, started_s, ended_s), ended_s])
    zeros = np.zeros(len(arrived_s))
    waiting = np.concatenate([zeros + 1, zeros - 1, zeros])
    inside = np.concatenate([zeros, computes, -computes.astype(np.float64)])
    order = np.argsort(at_s, kind="stable")
    queue, active = np.cumsum(waiting[order])[:-1], np.cumsum(inside[order])[:-1]
    some = (queue > 0) & (active > 0)
    return active[some].astype(np.int64), np.diff(at_s[order])[some]


def _free(arrived_s: Floats, started_s: Floats, ended_s: Floats, workers: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return how long workers were free before a client took them, and whether it waited all that time.

    Clients that did not wait are left out. First come, first served: the next worker to be used is the one that became
    free first.
    """
    computes = ~np.isnan(started_s)
    order = np.argsort(started_s[computes], kind="stable")
    arrived_s, started_s = arrived_s[computes][order][workers:], started_s[computes][order][workers:]
    left_s = np.sort(ended_s[computes])[: len(started_s)]
    whole = arrived_s <= left_s
    kept = whole | (started_s > arrived_s)
    return (started_s - left_s)[kept], whole[kept]
