"""Basic and advanced composition: sums of the epsilons of single releases.

Basic: epsilons add and deltas add (Dwork, Roth 2014, theorem 3.16). Advanced (Dwork, Rothblum, Vadhan 2010; for
different releases as in Kairouz, Oh, Viswanath 2015): for any slack delta' the releases are together private with

    epsilon = sqrt(2 ln(1/delta') sum epsilon_i^2) + sum epsilon_i (e^epsilon_i - 1)        delta = delta' + sum delta_i

The epsilon of each release is the smallest one at its share of delta. Releases that need a delta get equal shares (of
one half in the advanced rule, whose slack is the other half); pure releases get none. Advanced composition suits many
small epsilons; beyond epsilon_i = 1 or so it exceeds the basic rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncfl.privacy.accounting.events import MechanismEvent, Neighbours, for_neighbours
from asyncfl.privacy.accounting.gaussian import exact_epsilon, squared_mu_of

Floats = NDArray[np.float64]


def amplified(epsilon: float, rate: float) -> float:
    """Return the epsilon of a release on a secret Poisson sample: ln(1 + rate (e^epsilon - 1)); delta shrinks to rate
    delta.

    Source: Balle, Barthe, Gaboardi 2018, theorem 8. `rate` 0..1, exclusive.
    """
    return float(np.logaddexp(math.log1p(-rate), math.log(rate) + epsilon))


def epsilon_of_one(event: MechanismEvent, delta: float, neighbours: Neighbours = "add_remove") -> float:
    """Return the smallest epsilon of one release of `event` at its share `delta` (0..1, exclusive) of the total delta.
    Pure releases ignore `delta`."""
    if event.mechanism != "gaussian":
        return event.epsilon
    moved = 2.0 if event.rate < 1 and neighbours == "replace" else 1.0
    if event.rate == 1:
        return float(exact_epsilon(squared_mu_of(event.parameter / moved), delta))
    if delta >= event.rate:
        return 0.0  # the record is sampled with at most this probability
    return amplified(exact_epsilon(squared_mu_of(event.parameter / moved), delta / event.rate), event.rate)


def advanced_epsilon(sum_epsilon_squared: ArrayLike, sum_epsilon_grown: ArrayLike, slack: float) -> Floats:
    """Return the epsilon of advanced composition from sum epsilon_i^2 and sum epsilon_i (e^epsilon_i - 1),
    elementwise. `slack`: delta', 0..1, exclusive."""
    squares, grown = np.asarray(sum_epsilon_squared, dtype=np.float64), np.asarray(sum_epsilon_grown, dtype=np.float64)
    result: Floats = np.sqrt(-2 * math.log(slack) * squares) + grown
    return result


def basic_and_advanced(
    events: Iterable[MechanismEvent], delta: float, neighbours: Neighbours = "add_remove"
) -> tuple[float, float]:
    """Return the epsilon of all `events` together by basic and by advanced composition, at total `delta` (0..1,
    exclusive).

    Multipliers are relative to the contribution of one record, see `events.for_neighbours`.
    """
    judged = [event for event in for_neighbours(events, neighbours) if not event.silent]
    if not judged:
        return 0.0, 0.0
    sharing = sum(event.count for event in judged if event.mechanism == "gaussian")
    whole = [epsilon_of_one(event, delta / max(sharing, 1), neighbours) for event in judged]
    slack = delta / 2 if sharing else delta
    halved = [epsilon_of_one(event, delta / (2 * max(sharing, 1)), neighbours) for event in judged]
    counts = np.array([event.count for event in judged])
    with np.errstate(over="ignore"):
        own = np.array(halved)
        advanced = advanced_epsilon(counts @ own**2, counts @ (own * np.expm1(own)), slack)
    return float(counts @ np.array(whole)), float(advanced)
