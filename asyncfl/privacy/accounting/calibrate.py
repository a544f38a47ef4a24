"""Calibration: the smallest noise with which a number of releases stays within an epsilon."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

from asyncfl.privacy.accounting.accountants import Accountant, epsilon_by
from asyncfl.privacy.accounting.events import MechanismEvent, Neighbours
from asyncfl.privacy.accounting.exact import smallest_epsilon
from asyncfl.privacy.accounting.gaussian import analytic_multiplier
from asyncfl.privacy.accounting.roots import smallest_sufficient

_PRECISION = 1e-12  # relative, of a multiplier
_LEAST = 1e-12  # multiplier; if less noise is enough, delta alone is
_FAR = 700.0  # bound on |ln epsilon|


@lru_cache(maxsize=1024)
def multiplier_for(
    epsilon: float,
    delta: float,
    mechanism: Literal["gaussian", "laplace"] = "gaussian",
    releases: int = 1,
    rate: float = 1.0,
    neighbours: Neighbours = "add_remove",
    accountant: Accountant = "exact",
) -> float | None:
    """Return the noise multiplier of each of `releases` equal releases that are together (epsilon, delta)-private.

    The multiplier is relative to the contribution of one record. None if the accountant has no bound; 0 at infinite
    `epsilon`. `epsilon` > 0; `delta` 0..1, exclusive; `releases` >= 1; `rate` as in `events.MechanismEvent`.
    """
    if math.isinf(epsilon):
        return 0.0
    moved = 2.0 if neighbours == "replace" else 1.0
    if mechanism == "gaussian" and rate == 1 and accountant == "exact":
        return moved * math.sqrt(releases) * analytic_multiplier(epsilon, delta)

    def spent(multiplier: float) -> float | None:
        return epsilon_by(accountant, [MechanismEvent(mechanism, multiplier, releases, rate)], delta, neighbours)

    if spent(1.0) is None:
        return None
    if rate < 1 and accountant == "exact":
        return _by_distributions(epsilon, delta, releases, rate, neighbours)

    def missing(multiplier: float) -> float:
        found = spent(multiplier)
        if found is None:
            return _FAR
        return math.log(min(max(found, math.exp(-_FAR)), math.exp(_FAR))) - math.log(epsilon)

    return smallest_sufficient(missing, precision=_PRECISION, least=_LEAST)


def _by_distributions(epsilon: float, delta: float, releases: int, rate: float, neighbours: Neighbours) -> float:
    """Return `multiplier_for` of sampled releases by privacy loss distributions, with few evaluations: each takes a
    second."""

    from scipy.optimize import brentq

    def excess(log_multiplier: float) -> float:
        event = MechanismEvent("gaussian", math.exp(log_multiplier), releases, rate)
        return math.log(max(smallest_epsilon([event], delta, neighbours), 1e-12) / epsilon)

    # Another accountant gives a sufficient multiplier, up to rounding.
    other: Accountant = "rdp" if neighbours == "add_remove" else "basic"
    enough = multiplier_for(epsilon, delta, "gaussian", releases, rate, neighbours, other)
    assert enough is not None
    low = high = math.log(enough) + 1e-6
    while (at_low := excess(low)) <= 0:
        # Epsilon is almost inversely proportional to the noise.
        low, high = low + at_low - 0.01, low
    found = float(brentq(excess, low, high, xtol=1e-6))
    return math.exp(found if excess(found) <= 0 else min(found + 2e-6, high))
