"""The other direction: the smallest noise with which a number of releases stays within an epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from asyncfl.privacy.accounting.accountants import Accountant, epsilon_by
from asyncfl.privacy.accounting.events import MechanismEvent, Neighbours
from asyncfl.privacy.accounting.exact import smallest_epsilon
from asyncfl.privacy.accounting.gaussian import analytic_multiplier

_PRECISION = 1e-7  # relative, of a multiplier


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
    """Noise multiplier of each of `releases` equal releases that are together (epsilon, delta)-private.

    The multiplier is over what one record can add. None where the accountant knows no bound; 0 at infinite `epsilon`.
    `epsilon` > 0; `delta` 0..1, exclusive; `releases` >= 1; `rate` as in `events.MechanismEvent`.
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

    def too_much(multiplier: float) -> bool:
        found = spent(multiplier)
        return found is None or found > epsilon

    return _bisected(too_much)


def _bisected(too_much: Callable[[float], bool]) -> float:
    """Smallest multiplier that is not too little noise, whatever the size it has."""
    low = high = 1.0
    while too_much(high):
        low, high = high, high * 2
    while low == high or not too_much(low):
        if low < 1e-12:
            return low
        low, high = low / 2, low
    while high - low > _PRECISION * high:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if too_much(middle) else (low, middle)
    return high


def _by_distributions(epsilon: float, delta: float, releases: int, rate: float, neighbours: Neighbours) -> float:
    """The same with few questions: each composes privacy loss distributions, which takes a second."""

    def excess(log_multiplier: float) -> float:
        event = MechanismEvent("gaussian", math.exp(log_multiplier), releases, rate)
        return math.log(max(smallest_epsilon([event], delta, neighbours), 1e-12) / epsilon)

    # Another accountant tells a multiplier that is enough.
    other: Accountant = "rdp" if neighbours == "add_remove" else "basic"
    enough = multiplier_for(epsilon, delta, "gaussian", releases, rate, neighbours, other)
    high = math.log(enough or 1.0)
    at_high = excess(high)
    while at_high > 0:
        high += 0.1
        at_high = excess(high)
    low, at_low = high, at_high
    while at_low <= 0:
        # Epsilon is nearly inverse to the noise.
        high, at_high = low, at_low
        low += at_low - 0.01
        at_low = excess(low)
    # False position; halving the value of an end that stays (Illinois) keeps it from creeping.
    kept = 0
    while high - low > 1e-6:
        middle = min(max((low * at_high - high * at_low) / (at_high - at_low), low + 2e-7), high - 2e-7)
        found = excess(middle)
        if found > 0:
            low, at_low = middle, found
            at_high = at_high / 2 if kept > 0 else at_high
            kept = 1
        else:
            high, at_high = middle, found
            at_low = at_low / 2 if kept < 0 else at_low
            kept = -1
    return math.exp(high)
