"""The smallest epsilon of a list of releases: closed forms where there are, privacy loss distributions elsewhere.

Gaussian releases are one Gaussian release (`accounting.gaussian`), exact to the last digits. Equal Laplace releases are
composed in `laplace`, equal pure ones are a binomial (Kairouz, Oh, Viswanath 2015), and everything else is composed by
dp-accounting on a grid of losses: an upper bound, close to 1e-4 or to 1e-5 of a large epsilon. Sampled releases with
almost no noise, whose losses no grid can hold, are bounded in `revealed`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from asyncfl.privacy.accounting.basic import basic_and_advanced
from asyncfl.privacy.accounting.events import Neighbours, Part, Parts, gathered, under
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.accounting.laplace import epsilon_of_losses, laplace_epsilons
from asyncfl.privacy.accounting.renyi import renyi_epsilon
from asyncfl.privacy.accounting.revealed import is_revealing, revealed_epsilon

_STEP = 1e-4  # of the grid of losses; dp-accounting's own
_MANY = 100_000  # pure releases, past which unlikely sums of their losses are left out
_TAIL = 1e-6  # share of delta that is set aside for unlikely losses
_STEPS = 100_000  # of an epsilon that is so large that the grid must be coarser


def smallest_epsilon(
    parts: Iterable[Part], delta: float, neighbours: Neighbours = "add_remove", step: float | None = None
) -> float:
    """Smallest epsilon of all `parts` together; 0 where delta alone is enough, infinite where nothing is hidden.

    Multipliers are over what one record can add, see `events.under`. `delta` 0..1, exclusive. `step` of the grid of
    losses, where one is needed (None: fine enough); results are kept, so equal lists cost nothing.
    """
    judged = gathered(under(parts, neighbours))
    if any(part.unbounded for part in judged):
        return math.inf
    return _smallest(judged, delta, neighbours if any(part.rate < 1 for part in judged) else "add_remove", step)


@lru_cache(maxsize=4096)
def _smallest(parts: Parts, delta: float, neighbours: Neighbours, step: float | None) -> float:
    if all(part.mechanism == "gaussian" and part.rate == 1 for part in parts):
        return float(exact_epsilon(math.fsum(part.squared_mu for part in parts), delta))
    if len(parts) == 1 and parts[0].mechanism == "laplace":
        # Very many releases need a grid so coarse that Renyi accounting may be closer.
        bound = renyi_epsilon(parts, delta)
        found = float(laplace_epsilons(parts[0].count, parts[0].parameter, delta))
        return found if bound is None else min(found, bound)
    if len(parts) == 1 and parts[0].mechanism == "pure":
        return _binomial(parts[0].parameter, parts[0].count, delta)
    return _composed(parts, delta, neighbours, step)


def _binomial(epsilon: float, count: int, delta: float) -> float:
    """Epsilon of `count` releases that are `epsilon`-private and no better: each loss is epsilon or -epsilon."""
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


def _composed(parts: Parts, delta: float, neighbours: Neighbours, step: float | None) -> float:
    """By dp-accounting, which is imported here: that takes seconds."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    if step is None:
        # A bound on the answer tells how coarse the grid may be.
        bound = renyi_epsilon(parts, delta) if neighbours == "add_remove" else basic_and_advanced(parts, delta)[0]
        step = max(_STEP, (bound or 0.0) / _STEPS)
    open_ = [part for part in parts if part.rate < 1 and is_revealing(part, step)]
    if open_:
        others = tuple(part for part in parts if part not in open_)
        share = delta / (len(open_) + bool(others))
        rest = _smallest(others, share, neighbours, None) if others else 0.0
        return math.fsum([rest, *(revealed_epsilon(part, share, neighbours) for part in open_)])
    pure = [part.parameter for part in parts if part.mechanism == "pure"]
    if pure:
        step = pure[0] / math.ceil(pure[0] / step)  # such a loss is rounded up to the grid
    total = pld.identity(step)
    squared_mu = math.fsum(part.squared_mu for part in parts if _plain(part))
    if squared_mu > 0:
        total = total.compose(
            pld.from_gaussian_mechanism(1 / math.sqrt(squared_mu), value_discretization_interval=step)
        )
    for part in parts:
        if not _plain(part):
            total = total.compose(_distribution(pld, part, neighbours, step).self_compose(part.count))
    return float(total.get_epsilon_for_delta(delta))


def _plain(part: Part) -> bool:
    return part.mechanism == "gaussian" and part.rate == 1


def _distribution(pld: Any, part: Part, neighbours: Neighbours, step: float) -> Any:
    """Privacy loss distribution of one release of `part`."""
    if part.mechanism == "laplace":
        return pld.from_laplace_mechanism(part.parameter, value_discretization_interval=step)
    if part.mechanism == "pure":
        from dp_accounting.pld.common import DifferentialPrivacyParameters

        return pld.from_privacy_parameters(DifferentialPrivacyParameters(part.parameter, 0.0), step)
    from dp_accounting import NeighboringRelation

    relation = {"add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE, "replace": NeighboringRelation.REPLACE_ONE}
    return pld.from_gaussian_mechanism(
        part.parameter,
        sampling_prob=part.rate,
        neighboring_relation=relation[neighbours],
        value_discretization_interval=step,
    )
