"""Client selection: which of the idle clients are given tasks.

The dispatch policy decides how many, and when. A selected client is busy from then on, so that it is not selected
twice.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.answers import require
from asyncfl.base.component import Component, choice
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import RandomOrder
from asyncfl.protocol.dispatch import Count, Share, number_of
from asyncfl.protocol.population import ClientStatistics, Population

Part = Annotated[float, Field(ge=0, le=1)]
LARGEST_LOSS = float(np.finfo(np.float32).max)
"""Largest finite loss that training in float32 can have."""


class Selection(Component):
    """Base class of client selections. A selection of your own implements `choose`."""

    logged: ClassVar[tuple[str, ...]] = ("clients.tasks", "events.dispatched")
    one_of: ClassVar[tuple[str, ...]] = ("choose", "draw")
    independent: ClassVar[bool] = False
    """Whether each client is drawn by itself, so that a cohort has a random size."""

    @property
    def tells_losses(self) -> bool:
        """Whether the selection depends on losses that clients report in the clear, so that it reveals something about
        them."""
        return False

    def choose(
        self, count: int, idle: NDArray[np.int64], served: NDArray[np.int64], random: np.random.Generator
    ) -> NDArray[np.int64]:
        """Choose (count,) different clients, in the order in which they are asked. `count`: 1..n_idle. `idle`:
        (n_idle,) numbers of the idle clients, ascending. `served`: (n_idle,) tasks that each of them has been given so
        far. `random`: a generator of its own for each draw."""
        raise NotImplementedError

    def draw(self, population: Population, count: int, order: RandomOrder) -> list[int]:
        """Select `count` clients, or all idle clients if they are fewer, mark them as busy and return their numbers.
        The server calls this method. `choose` is given all idle clients; a selection that does not need them can
        override `draw` instead. Raises: ComponentError if `choose` does not return `count` different idle clients."""
        idle = population.idle
        count = min(count, len(idle))
        if count <= 0:
            return []
        chosen = self.choose(count, idle, population.served[idle], order.generator())
        numbers = isinstance(chosen, np.ndarray) and chosen.dtype.kind in "iu" and chosen.shape == (count,)
        require(numbers, self, "choose", f"must be ({count},) integers", chosen)
        right = len(np.unique(chosen)) == count and bool(np.isin(chosen, idle).all())
        require(right, self, "choose", "must be different clients that are idle", chosen.tolist())
        drawn: list[int] = chosen.tolist()
        for client in drawn:
            population.remove(client)
        return drawn


class UniformSelection(Selection):
    """Select idle clients uniformly at random. Source: McMahan et al. 2017, algorithm 1."""

    kind: Literal["uniform"] = "uniform"

    def draw(self, population: Population, count: int, order: RandomOrder) -> list[int]:
        return population.draw(count, order)


class PoissonSelection(Selection):
    """Draw each client by itself with probability q = participants / clients, so that a cohort has a random size.

    Whether a client is drawn depends on no other client. Where nobody but the server sees who was drawn, noise of the
    server then hides a client better than where it always takes part: the ledger credits that to the public and to
    curious clients, if nothing broke the independence in a run. A cohort of nobody makes a version of noise alone.
    Source: McMahan, Ramage, Talwar, Zhang 2018, algorithm 1.
    """

    kind: Literal["poisson"] = "poisson"
    independent: ClassVar[bool] = True

    def draw(self, population: Population, count: int, order: RandomOrder) -> list[int]:
        # A coin for each client, whoever is idle.
        heads = order.generator().random(population.clients) < count / population.clients
        drawn: list[int] = [client for client in np.flatnonzero(heads).tolist() if population.is_idle(client)]
        for client in drawn:
            population.remove(client)
        return drawn


class FairSelection(Selection):
    """Select the clients with the fewest tasks so far, ties at random. Source: ours."""

    kind: Literal["fair"] = "fair"

    def draw(self, population: Population, count: int, order: RandomOrder) -> list[int]:
        return population.draw_least_served(count, order)


class InformedSelection(Selection):
    """Base class of selections that use the server's statistics of its clients. Subclasses implement `pick`."""

    @property
    def tells_losses(self) -> bool:
        return True

    def pick(
        self, count: int, idle: NDArray[np.int64], statistics: ClientStatistics, random: np.random.Generator
    ) -> NDArray[np.int64]:
        """Choose (count,) different clients among `idle` (n_idle,), where 1 <= count < n_idle, and return their
        numbers. `statistics`: latest loss, duration and version of all clients."""
        raise NotImplementedError

    def draw(self, population: Population, count: int, order: RandomOrder) -> list[int]:
        idle = population.idle
        if count <= 0 or not len(idle):
            return []
        drawn: list[int] = idle.tolist()
        if count < len(idle):
            drawn = self.pick(count, idle, population.statistics, order.generator()).tolist()
        for client in drawn:
            population.remove(client)
        return drawn


class BySamples(InformedSelection):
    """Select clients one after another, each with a probability in proportion to its training samples.

    FedProx draws its cohorts so, with p_k = n_k/n, and so does the paper on adaptive differential privacy where it
    recalls federated averaging; with updates of equal weight the cohort's mean then follows the samples. Without
    replacement, so that the larger the cohort, the nearer the draw is to a uniform one.

    Source: Li et al. 2020, "Federated optimization in heterogeneous networks", algorithm 2; Xu, Tong, Dai 2025,
    algorithm 1, line 2.
    """

    kind: Literal["by_samples"] = "by_samples"

    @property
    def tells_losses(self) -> bool:
        return False

    def pick(
        self, count: int, idle: NDArray[np.int64], statistics: ClientStatistics, random: np.random.Generator
    ) -> NDArray[np.int64]:
        return idle[_weighted(statistics.samples[idle].astype(np.float64), count, random)]


class PowerOfChoice(InformedSelection):
    """Power of choice: of some random candidates, select those with the highest loss.

    Cho, Wang, Joshi 2022, "Towards understanding biased client selection in federated learning", in the form rpow-d:
    it uses the loss of each client's last update, and infinity for a client without one, so that no extra message is
    needed.

    Uses the mean training loss of the last local epoch that each client reported with its last collected update.
    Clients report it without noise, so epsilon is infinite for each adversary that holds the message. In a timeline,
    where nothing is trained, all losses are equal.

    Source: Cho, Wang, Joshi 2022, rpow-d.
    """

    kind: Literal["power_of_choice"] = "power_of_choice"
    candidates: Annotated[Count | Share, MeasuredIn("clients or share"), Field(examples=[15])]
    """d: candidates, drawn in proportion to their samples; a count or a share of all clients below 1; never fewer than
    the tasks to begin. With exactly as many candidates as tasks the draw is by samples alone; with all clients as
    candidates it is by loss alone."""

    def pick(
        self, count: int, idle: NDArray[np.int64], statistics: ClientStatistics, random: np.random.Generator
    ) -> NDArray[np.int64]:
        size = min(len(idle), max(count, number_of(self.candidates, len(statistics.samples))))
        candidates = idle[_weighted(statistics.samples[idle].astype(np.float64), size, random)]
        losses = np.nan_to_num(statistics.losses[candidates], nan=np.inf)
        # Candidates are in random order, and a stable sort keeps that order among equal losses.
        return candidates[np.argsort(-losses, kind="stable")[:count]]


class Oort(InformedSelection):
    """Oort: select by loss and speed (Lai, Zhu, Madhyastha, Chowdhury 2021, "Oort: efficient federated learning via
    guided participant selection", algorithm 1 and equation 2).

    Utility of a client with n samples, last loss l in version L and last duration t, at version R:

        U = (clipped n l + sqrt(0.1 ln R / L)) (T / t)^(alpha [t > T])

    A share epsilon of the selected clients has no statistics yet (exploration). The others are drawn in proportion to U
    among the clients whose U is at least `cutoff` times the lowest U needed. n l stands for Oort's n sqrt(mean of
    squared losses), since clients report mean losses only.

    Uses the mean training loss of the last local epoch that each client reported with its last collected update.
    Clients report it without noise, so epsilon is infinite for each adversary that holds the message. In a timeline,
    where nothing is trained, all losses are equal.

    Source: Lai et al. 2021, algorithm 1 and equation 2.
    """

    kind: Literal["oort"] = "oort"
    preferred_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """T, seconds that a task should take at most; null: the median of all durations so far. Source: Lai et al. 2021,
    equation 2."""
    penalty: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("1")] = 2.0
    """alpha: exponent of the penalty of a client that takes longer than T. Source: Lai et al. 2021, equation 2."""
    exploration: Annotated[Part, MeasuredIn("share")] = 0.9
    """Initial epsilon: share of the selected clients that have no statistics yet."""
    decay: Annotated[Part, MeasuredIn("factor")] = 0.98
    """Factor on epsilon with each version."""
    least_exploration: Annotated[Part, MeasuredIn("share")] = 0.2
    """Lower limit of epsilon."""
    cutoff: Annotated[Part, MeasuredIn("share")] = 0.95
    """c: a client is eligible from this share of the lowest utility needed."""
    clip_quantile: Annotated[Part, MeasuredIn("quantile")] = 0.95
    """Quantile at which n l is clipped, against outliers."""

    def pick(
        self, count: int, idle: NDArray[np.int64], statistics: ClientStatistics, random: np.random.Generator
    ) -> NDArray[np.int64]:
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
        """Compute U >= 0 of clients (n,) that have statistics."""
        # Clients report their losses: one that no training can have must not make the others' chances NaN.
        losses = np.clip(statistics.losses[clients], 0.0, LARGEST_LOSS)
        loss = statistics.samples[clients] * losses
        loss = np.minimum(loss, np.quantile(loss, self.clip_quantile))
        age = 0.1 * math.log(max(statistics.version, 1)) / np.maximum(statistics.versions[clients], 1)
        took_s = statistics.durations_s[clients]
        limit_s = self.preferred_s if self.preferred_s is not None else float(np.nanmedian(statistics.durations_s))
        late = took_s > limit_s
        speed = np.ones(len(clients))
        speed[late] = (limit_s / took_s[late]) ** self.penalty
        return np.asarray((loss + np.sqrt(age)) * speed, dtype=np.float64)


def _weighted(weights: NDArray[np.float64], count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Draw (count,) different indices one after another, each in proportion to the `weights` (n,) that are left.
    Efraimidis and Spirakis 2006: the smallest of Exp(1) / weight. Indices of weight 0 come last, in random order."""
    arrival = random.standard_exponential(len(weights))
    with np.errstate(divide="ignore"):
        return np.lexsort((arrival, arrival / weights))[:count]


if TYPE_CHECKING:
    AnySelection = Selection
else:
    AnySelection: Any = choice(
        Selection, UniformSelection, PoissonSelection, FairSelection, BySamples, PowerOfChoice, Oort
    )
