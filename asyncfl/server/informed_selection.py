"""Selections by what clients have said: their losses, and how long they took.

Both go by the last loss that the server has statistics of a client, as mean training loss of its last epoch. That is told in
the clear: it is about the client's data, and no scheme of privacy covers it. Where nothing is trained (a timeline) all
losses are equal.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.quantities import MeasuredIn
from asyncfl.server.client_statistics import ClientStatistics
from asyncfl.server.dispatch import Count, Share, number_of
from asyncfl.server.population import Population
from asyncfl.server.selection import Selection
from asyncfl.streams import RandomOrder

Part = Annotated[float, Field(ge=0, le=1)]


class InformedSelection(Selection):
    """Base of those that go by what was statistics: they write `pick`."""

    @property
    def tells_losses(self) -> bool:
        """They do."""
        return True

    def pick(
        self, count: int, idle: NDArray[np.int64], statistics: ClientStatistics, random: np.random.Generator
    ) -> NDArray[np.int64]:
        """(count,) different numbers among `idle` (n_idle,), where 1 <= count < n_idle."""
        raise NotImplementedError

    def draw(self, population: Population, count: int, order: RandomOrder) -> list[int]:
        """The clients that are picked, or all idle ones where there are no more than `count`."""
        idle = population.idle
        if count <= 0 or not len(idle):
            return []
        drawn: list[int] = idle.tolist()
        if count < len(idle):
            drawn = self.pick(count, idle, population.statistics, order.generator()).tolist()
        for client in drawn:
            population.remove(client)
        return drawn


class PowerOfChoice(InformedSelection):
    """Of some candidates, those with the highest loss.

    Cho, Wang, Joshi 2022, "Towards understanding biased client selection in federated learning", in the form rpow-d: by
    the loss of the last time, infinite where a client was never selected, so that asking costs nothing.

    Source: Cho, Wang, Joshi 2022, rpow-d.
    """

    kind: Literal["power_of_choice"] = "power_of_choice"
    candidates: Annotated[Count | Share, MeasuredIn("clients or share"), Field(examples=[15])]
    """d: candidates, drawn in proportion to their samples; a count or a share of all clients below 1; never fewer than
    are asked. With as many as are asked it is a draw by samples, with all clients it is the highest losses."""

    def pick(
        self, count: int, idle: NDArray[np.int64], statistics: ClientStatistics, random: np.random.Generator
    ) -> NDArray[np.int64]:
        """The candidates with the highest losses; who among equals is left to chance."""
        size = min(len(idle), max(count, number_of(self.candidates, len(statistics.samples))))
        candidates = idle[_weighted(statistics.samples[idle].astype(np.float64), size, random)]
        losses = np.nan_to_num(statistics.losses[candidates], nan=np.inf)
        # They stand in random order, which a stable sort keeps among equals.
        return candidates[np.argsort(-losses, kind="stable")[:count]]


class Oort(InformedSelection):
    """By loss and speed (Lai, Zhu, Madhyastha, Chowdhury 2021, "Oort: efficient federated learning via guided
    participant selection", algorithm 1 and equation 2).

    Utility of a client with n samples, last loss l in version L and last duration t, at version R:

        U = (clipped n l + sqrt(0.1 ln R / L)) (T / t)^(alpha [t > T])

    A part epsilon of those who are asked has never been statistics of (exploration); the others are drawn in proportion to U
    among those whose U is at least `cutoff` of the lowest that would be needed. n l stands for Oort's n sqrt(mean of
    squared losses), which a server does not hear.

    Source: Lai et al. 2021, algorithm 1 and equation 2.
    """

    kind: Literal["oort"] = "oort"
    preferred_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """T, seconds that a task should take at most; null: the median of what was statistics so far. Source: Lai et al. 2021,
    equation 2."""
    penalty: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("1")] = 2.0
    """alpha: how much a client that takes longer than T loses. Source: Lai et al. 2021, equation 2."""
    exploration: Annotated[Part, MeasuredIn("share")] = 0.9
    """epsilon at first: share of those asked that was never statistics of."""
    decay: Annotated[Part, MeasuredIn("factor")] = 0.98
    """Factor on epsilon with each version."""
    least_exploration: Annotated[Part, MeasuredIn("share")] = 0.2
    """Where epsilon stops falling."""
    cutoff: Annotated[Part, MeasuredIn("share")] = 0.95
    """c: share of the lowest utility needed that makes a client eligible."""
    clip_quantile: Annotated[Part, MeasuredIn("quantile")] = 0.95
    """Quantile of n l above which a client counts no more, against those whose losses are outliers."""

    def pick(
        self, count: int, idle: NDArray[np.int64], statistics: ClientStatistics, random: np.random.Generator
    ) -> NDArray[np.int64]:
        """Clients of high utility, and some that were never statistics of."""
        known = np.isfinite(statistics.losses[idle]) & np.isfinite(statistics.durations_s[idle])
        tried, untried = idle[known], idle[~known]
        epsilon = max(self.least_exploration, self.exploration * self.decay**statistics.version)
        explored = min(len(untried), max(round(epsilon * count), count - len(tried)))
        exploited = count - explored
        picked = [untried[random.permutation(len(untried))[:explored]]]
        if exploited:
            utility = self.utility(tried, statistics)
            needed = np.partition(utility, len(utility) - exploited)[len(utility) - exploited]
            eligible = np.flatnonzero(utility >= self.cutoff * needed)
            picked.append(tried[eligible[_weighted(utility[eligible], exploited, random)]])
        return np.concatenate(picked)

    def utility(self, clients: NDArray[np.int64], statistics: ClientStatistics) -> NDArray[np.float64]:
        """U of clients (n,) that were statistics of, each >= 0."""
        loss = np.maximum(statistics.samples[clients] * statistics.losses[clients], 0.0)
        loss = np.minimum(loss, np.quantile(loss, self.clip_quantile))
        age = 0.1 * math.log(max(statistics.version, 1)) / np.maximum(statistics.versions[clients], 1)
        took_s = statistics.durations_s[clients]
        limit_s = self.preferred_s if self.preferred_s is not None else float(np.nanmedian(statistics.durations_s))
        late = took_s > limit_s
        speed = np.ones(len(clients))
        speed[late] = (limit_s / took_s[late]) ** self.penalty
        return np.asarray((loss + np.sqrt(age)) * speed, dtype=np.float64)


def _weighted(weights: NDArray[np.float64], count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """(count,) different places, one after another in proportion to `weights` (n,) of what is left; in that order.

    Efraimidis and Spirakis 2006: the smallest of Exp(1) / weight. Where weights are 0 those come last, at random.
    """
    arrival = random.standard_exponential(len(weights))
    with np.errstate(divide="ignore"):
        return np.lexsort((arrival, arrival / weights))[:count]
