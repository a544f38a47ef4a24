"""The smallest epsilon of a list of releases: closed forms where they exist, otherwise privacy loss distributions.

Gaussian releases compose to one Gaussian release (`accounting.gaussian`), exact to the last digits. Equal Laplace
releases are composed in `laplace`, and equal pure releases are a binomial (Kairouz, Oh, Viswanath 2015). Everything
else is composed by dp-accounting on a grid of losses, which gives an upper bound, close to 1e-4 or to 1e-5 of a large
epsilon. If another accountant proves less, its epsilon is used: a grid rounds up each of many small losses.

Sampled releases with so little noise that no grid can hold their losses are bounded (`revealed_epsilon`): the adversary
is told which K of the n releases contain the record, K binomial(n, rate), and faces them as one Gaussian release with
sum K/z^2. The hockey-stick divergence is jointly convex, so the true delta is at most the mean of these deltas. The
bound is close where noise hides little anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from asyncfl.privacy.accounting.basic import basic_and_advanced, epsilon_of_one
from asyncfl.privacy.accounting.events import Events, MechanismEvent, Neighbours, for_neighbours, merge_equal_events
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.accounting.laplace import epsilon_of_losses, laplace_epsilons
from asyncfl.privacy.accounting.renyi import renyi_epsilon

_STEP = 1e-4  # of the grid of losses; dp-accounting's own
_MANY = 100_000  # pure releases, past which unlikely sums of their losses are left out
_TAIL = 1e-6  # share of delta that is set aside for unlikely losses
_FAR = 500.0  # epsilon of one release, past which a grid would hold too many losses, and hides nothing
_STEPS = 100_000  # of an epsilon that is so large that the grid must be coarser
_CELLS = 2e6  # of a grid, more of which are too many for the losses of one sampled release
_COARSEST = 100.0  # step of a grid for sampled releases
_CANDIDATES = 200  # numbers of releases with the record that a bound is looked for at


def smallest_epsilon(
    events: Iterable[MechanismEvent], delta: float, neighbours: Neighbours = "add_remove", step: float | None = None
) -> float:
    """Compute the smallest epsilon of all `events`; 0 if delta alone is enough, infinite if a release has no noise.

    Multipliers are relative to the contribution of one record, see `events.for_neighbours`. `delta` 0..1, exclusive.
    `step`: step of the grid of losses, if a grid is needed; None for a step that is fine enough. Results are cached.
    """
    judged = merge_equal_events(for_neighbours(events, neighbours))
    if any(event.unbounded for event in judged):
        return math.inf
    return _smallest(judged, delta, neighbours if any(event.rate < 1 for event in judged) else "add_remove", step)


@lru_cache(maxsize=4096)
def _smallest(events: Events, delta: float, neighbours: Neighbours, step: float | None) -> float:
    if all(event.mechanism == "gaussian" and event.rate == 1 for event in events):
        return float(exact_epsilon(math.fsum(event.squared_mu for event in events), delta))
    if len(events) == 1 and events[0].mechanism == "laplace":
        # Very many releases need such a coarse grid that Renyi accounting may be closer.
        bound = renyi_epsilon(events, delta)
        found = float(laplace_epsilons(events[0].count, events[0].parameter, delta))
        return found if bound is None else min(found, bound)
    if len(events) == 1 and events[0].mechanism == "pure":
        return _binomial(events[0].parameter, events[0].count, delta)
    # A grid rounds each loss up: over very many releases another accountant may prove less.
    others = [*basic_and_advanced(events, delta, neighbours), renyi_epsilon(events, delta, neighbours)]
    return min([_composed(events, delta, neighbours, step), *(other for other in others if other is not None)])


def _binomial(epsilon: float, count: int, delta: float) -> float:
    """Return the epsilon of `count` releases that are `epsilon`-private and no better: each loss is epsilon or
    -epsilon."""
    from scipy.special import gammaln

    low, high = 0, count
    if count > _MANY:
        # All but a share of delta lies so close to the mean (Hoeffding).
        mean, width = count / (1 + math.exp(-epsilon)), math.sqrt(count * math.log(2 / (_TAIL * delta)) / 2)
        low, high = max(math.floor(mean - width), 0), min(math.ceil(mean + width), count)
        delta *= 1 - _TAIL
    up = np.arange(low, high + 1)
    choices = gammaln(count + 1) - gammaln(up + 1) - gammaln(count - up + 1)
    # Losses of epsilon have probability e^epsilon/(1 + e^epsilon).
    weight = choices - (count - up) * epsilon - count * math.log1p(math.exp(-epsilon))
    return epsilon_of_losses((2.0 * up - count) * epsilon, np.exp(weight), delta)


def _composed(events: Events, delta: float, neighbours: Neighbours, step: float | None) -> float:
    """Return epsilon by dp-accounting, which is imported here because that takes seconds."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    if step is None:
        # A bound on the answer tells how coarse the grid may be.
        bound = renyi_epsilon(events, delta) if neighbours == "add_remove" else basic_and_advanced(events, delta)[0]
        step = max(_STEP, (bound or 0.0) / _STEPS)
    far = tuple(event for event in events if event.mechanism != "gaussian" and event.epsilon > _FAR)
    if far:
        # Their pure epsilons add up and cost no delta.
        others = tuple(event for event in events if event not in far)
        rest = _smallest(others, delta, neighbours, None) if others else 0.0
        return math.fsum([rest, *(event.count * event.epsilon for event in far)])
    open_ = [event for event in events if event.rate < 1 and is_revealing(event, step)]
    if open_:
        others = tuple(event for event in events if event not in open_)
        share = delta / (len(open_) + bool(others))
        rest = _smallest(others, share, neighbours, None) if others else 0.0
        return math.fsum([rest, *(revealed_epsilon(event, share, neighbours) for event in open_)])
    pure = [event.parameter for event in events if event.mechanism == "pure"]
    if pure:
        step = pure[0] / math.ceil(pure[0] / step)  # such a loss is rounded up to the grid
    total = pld.identity(step)
    squared_mu = math.fsum(event.squared_mu for event in events if _plain(event))
    if squared_mu > 0:
        total = total.compose(
            pld.from_gaussian_mechanism(1 / math.sqrt(squared_mu), value_discretization_interval=step)
        )
    for event in events:
        if not _plain(event):
            total = total.compose(_distribution(pld, event, neighbours, step).self_compose(event.count))
    return float(total.get_epsilon_for_delta(delta))


def _plain(event: MechanismEvent) -> bool:
    return event.mechanism == "gaussian" and event.rate == 1


def _distribution(pld: Any, event: MechanismEvent, neighbours: Neighbours, step: float) -> Any:
    """Return the privacy loss distribution of one release of `event`."""
    if event.mechanism == "laplace":
        return pld.from_laplace_mechanism(event.parameter, value_discretization_interval=step)
    if event.mechanism == "pure":
        from dp_accounting.pld.common import DifferentialPrivacyParameters

        return pld.from_privacy_parameters(DifferentialPrivacyParameters(event.parameter, 0.0), step)
    from dp_accounting import NeighboringRelation

    relation = {"add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE, "replace": NeighboringRelation.REPLACE_ONE}
    return pld.from_gaussian_mechanism(
        event.parameter,
        sampling_prob=event.rate,
        neighboring_relation=relation[neighbours],
        value_discretization_interval=step,
    )


def is_revealing(event: MechanismEvent, step: float) -> bool:
    """Whether one sampled release needs too many grid cells with this step, or too coarse a grid."""
    loss = 0.5 / event.parameter**2 + 15 / event.parameter
    return loss / step > _CELLS or step > _COARSEST


def revealed_epsilon(event: MechanismEvent, delta: float, neighbours: Neighbours) -> float:
    """Return an upper bound on the epsilon of a sampled Gaussian event; 0 if delta covers that the record is sampled at
    all.

    `delta` 0..1, exclusive. For each k, the event that the record is in more than k releases is charged to delta in
    full, and otherwise it counts as being in k releases; the best k is used. If the sum of singly amplified releases is
    smaller, that is returned.
    """
    from scipy.stats import binom

    drawn = binom(event.count, event.rate)
    any_ = -math.expm1(event.count * math.log1p(-event.rate))
    if any_ <= delta:
        return 0.0
    least, most = int(drawn.isf(delta)), min(int(drawn.isf(delta * 1e-9)) + 1, event.count)
    k = np.unique(np.linspace(max(least, 1), most, _CANDIDATES).astype(np.int64))
    left = delta - drawn.sf(k)
    k, left = k[left > 0], left[left > 0]
    moved = 2.0 if neighbours == "replace" else 1.0
    bound = float(np.min(exact_epsilon(k * (moved / event.parameter) ** 2, left / any_)))
    return min(bound, event.count * epsilon_of_one(event, delta / event.count, neighbours))
