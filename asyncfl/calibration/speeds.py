"""Fit the computing speed of each client, and the jitter of tasks.

The time of a training is work x seconds per sample of the client x a factor of the task with mean 1. The factor has the
same law for all clients, so it is fitted to all trainings together: the logarithm of time over work, minus the mean of
the client, times sqrt(n / (n - 1)) to correct for the error of that mean. A client's speed is the mean of its
trainings. A training cut off after more than that time counts with its observed time, so that slow tasks are not
ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from asyncfl.calibration.families import SAME, FittedShape, Floats, fit_distribution, of_mean_one
from asyncfl.calibration.observations import Trainings


@dataclass(frozen=True)
class FittedSpeeds:
    s_per_sample: Floats
    """(clients,) mean seconds per sample and epoch; for clients without a finished training, the median of the
    others."""
    unseen: tuple[int, ...]
    population: FittedShape
    """Distribution of the speeds of the other clients."""
    jitter: FittedShape
    """Distribution of the factor of a task, with mean 1."""
    trainings: int


def fit_speeds(clients: int, trainings: Trainings) -> FittedSpeeds:
    """Fit the speed of each client, and the distribution of the task factor that all clients share.

    `clients`: number of clients. At least one training must have finished.
    """
    seen = trainings.seen
    rate = trainings.seconds / trainings.work
    number = np.bincount(trainings.client[seen], minlength=clients)
    known = number > 0
    logs = np.log(np.maximum(rate[seen], 1e-12))
    theirs = np.bincount(trainings.client[seen], logs, minlength=clients) / np.maximum(number, 1)
    jitter = _jitter(logs, theirs, number, trainings)
    speed = np.bincount(trainings.client[seen], rate[seen], minlength=clients) / np.maximum(number, 1)
    if not jitter.distribution.is_constant:
        speed = _with_cut_off(speed, number, trainings, rate)
    speed[~known] = float(np.median(speed[known]))
    speed = np.maximum(speed, 1e-12)
    unseen = tuple(int(client) for client in np.flatnonzero(~known))
    return FittedSpeeds(speed, unseen, fit_distribution(speed[known]), jitter, int(seen.sum()))


def _jitter(logs: Floats, theirs: Floats, number: np.ndarray, trainings: Trainings) -> FittedShape:
    """Fit the distribution of the task factor, with mean 1, to clients with at least two finished trainings.

    `logs`: (finished,) logarithms of the seconds per sample and epoch; `theirs`: (clients,) their means.
    """
    client = trainings.client[trainings.seen]
    several = number[client] > 1
    if not several.any():
        return fit_distribution(np.ones(1))
    n = number[client[several]]
    apart = (logs[several] - theirs[client[several]]) * np.sqrt(n / (n - 1))
    if np.abs(apart).max() <= SAME:
        return fit_distribution(np.ones(len(apart)))
    factors = np.exp(apart)
    made = fit_distribution(factors / factors.mean())
    expected = made.expected / made.distribution.expected()
    return replace(made, distribution=of_mean_one(made.distribution), expected=expected)


def _with_cut_off(speed: Floats, number: np.ndarray, trainings: Trainings, rate: Floats) -> Floats:
    """Return the mean seconds per sample and epoch (clients,), with trainings that were cut off later than the mean.

    `speed`: (clients,) means over finished trainings; `rate`: (trainings,) observed seconds per sample and epoch.
    """
    cut = ~trainings.seen
    longer = cut & (rate > speed[trainings.client]) & (number[trainings.client] > 0)
    total = speed * number
    np.add.at(total, trainings.client[longer], rate[longer])
    count = number + np.bincount(trainings.client[longer], minlength=len(number))
    return np.asarray(total / np.maximum(count, 1))
