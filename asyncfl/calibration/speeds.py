"""How fast each client computes, and how much a task's computing time scatters about that.

The time of a training is work x seconds per sample of its client x a factor of the task, of mean 1. The factor is the
same for all clients in law, so its shape comes from all of them together: the logarithm of a training's time over
work, less the mean of its client, widened by sqrt(n / (n - 1)) for that mean's own error. A client's speed is then the
mean of its trainings. A training that was cut off after it had taken longer than that counts as one that took so long:
slow tasks are not forgotten because they had not ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asyncfl.calibration.families import SAME, FittedShape, fit_distribution
from asyncfl.calibration.observations import Floats, Trainings
from asyncfl.world.distributions import Distribution, Exponential, Fixed, Lognormal, Pareto, Uniform


@dataclass(frozen=True)
class FittedSpeeds:
    """Computing times of a population."""

    s_per_sample: Floats
    """(clients,) seconds per sample and epoch in the mean; of who was not seen the median of the others."""
    unseen: tuple[int, ...]
    """Clients of whom no training was seen to its end."""
    population: FittedShape
    """What the speeds of those who were seen look like."""
    jitter: FittedShape
    """Factor of a task, of mean 1."""
    trainings: int
    """Trainings that were seen to their end."""


def fit_speeds(clients: int, trainings: Trainings) -> FittedSpeeds:
    """Fit speeds and their scatter.

    `clients`: number of clients. At least one training must have been observed to its end.
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
    """The factor's law from trainings of clients that were seen at least twice."""
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
    shape = of_mean_one(made.distribution)
    change = made.distribution.expected()
    return FittedShape(shape, made.exact, made.shares, made.expected / change, made.log_likelihood, made.compared)


def of_mean_one(one: Distribution) -> Distribution:
    """The same shape, scaled to a mean of 1."""
    mean = one.expected()
    match one:
        case Uniform():
            return Uniform(low=one.low / mean, high=one.high / mean)
        case Exponential():
            return Exponential(mean=1.0, minimum=one.minimum / mean)
        case Lognormal():
            return Lognormal(median=one.median / mean, sigma=one.sigma)
        case Pareto() if np.isfinite(mean):
            return Pareto(minimum=one.minimum / mean, alpha=one.alpha)
        case _:
            return Fixed(value=1.0)


def _with_cut_off(speed: Floats, number: np.ndarray, trainings: Trainings, rate: Floats) -> Floats:
    """Means in which a training counts that was cut off later than the mean: it took at least that long."""
    cut = ~trainings.seen
    longer = cut & (rate > speed[trainings.client]) & (number[trainings.client] > 0)
    total = speed * number
    np.add.at(total, trainings.client[longer], rate[longer])
    count = number + np.bincount(trainings.client[longer], minlength=len(number))
    return np.asarray(total / np.maximum(count, 1))
