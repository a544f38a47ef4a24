"""Lower bound on mu of a Gaussian mechanism from one run with many canaries (Mahloujifar, Melis, Chaudhuri 2024).

`one_run` assumes nothing about the mechanism, at a cost: it bounds every (epsilon, delta)-private mechanism. For
Gaussian releases the whole trade-off curve is known up to mu, and the same guesses show more. The refuted hypothesis is
then that the mechanism is mu-GDP, not that it is (epsilon, delta)-private in some other way. The epsilon that follows
from mu is a lower bound for Gaussian mechanisms only.

Let h_i and w_i be the largest weighted probabilities, summed from i right guesses on, of right and wrong guesses. The
trade-off curve bounds the wrong ones from below by h -> Phi(Phi^-1(h) - mu). Starting from `c` right of `r` guesses one
proceeds downwards step by step (algorithm 3 there). If the required sum exceeds r / m, the number of guesses per
canary, that many right guesses had a probability below `level`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.estimators.guesses import GuessPlan, count_correct, guess_plans, ranking

_POINTS = 33
"""Number of values of mu tried at once; each round keeps one of the gaps between them."""
_ROUNDS = 5
_LARGEST = 40.0
"""Largest mu: beyond it every coin is known, and test errors are below the smallest float64."""


def refuted(canaries: int, guesses: int, right: int, mus: NDArray[np.float64], level: float) -> NDArray[np.bool_]:
    """Return (k,) whether this many right guesses have a probability below `level` under mu-GDP, for each of `mus` (k,)
    >= 0.

    Source: Mahloujifar, Melis, Chaudhuri 2024, algorithm 3, for coins with two sides.
    """
    from scipy.special import ndtr, ndtri

    hit = np.full(len(mus), level * right / canaries)
    missed = np.full(len(mus), level * (guesses - right) / canaries)
    for i in reversed(range(right)):
        needed = np.maximum(missed, ndtr(ndtri(hit) - mus))
        if not (needed > missed).any():
            break  # from here on neither can change
        hit = np.minimum(hit + i / (guesses - i) * (needed - missed), 1.0)
        missed = needed
    result: NDArray[np.bool_] = hit + missed > guesses / canaries
    return result


def mu_lower_bound(canaries: int, guesses: int, right: int, level: float = 0.05) -> float:
    """Return a lower bound on mu at confidence 1 - `level` from `right` of `guesses` guesses; 0 if nothing is shown.

    At most 40. Raises ValueError for impossible counts.
    """
    if not 0 <= right <= guesses <= canaries:
        raise ValueError(f"needs 0 <= right <= guesses <= canaries, got {right}, {guesses} and {canaries}")
    if 2 * right <= guesses:
        return 0.0
    low, high = 0.0, _LARGEST
    for _ in range(_ROUNDS):
        tried = np.linspace(low, high, _POINTS)
        # Refuting one mu refutes all below it.
        last = int(np.append(~refuted(canaries, guesses, right, tried, level), True).argmax()) - 1
        if last < 0:
            return 0.0
        if last == _POINTS - 1:
            return float(high)
        low, high = float(tried[last]), float(tried[last + 1])
    return low


def best_mu_lower_bound(
    scores: NDArray[np.float64],
    included: NDArray[np.bool_],
    level: float = 0.05,
    tried: Sequence[GuessPlan] | None = None,
) -> float:
    """Return the largest lower bound on mu over all plans, at confidence 1 - `level` for all of them together.

    Arguments as in `one_run.best_lower_bound`.
    """
    order, among = ranking(scores), guess_plans(len(scores)) if tried is None else tried
    return max(
        mu_lower_bound(len(scores), plan.guesses, count_correct(order, included, plan), level / len(among))
        for plan in among
    )


def largest_detectable_mu(canaries: int, level: float = 0.05, tried: Sequence[GuessPlan] | None = None) -> float:
    """Return the largest mu that `best_mu_lower_bound` can show with this many canaries, if all guesses are right.

    `level`, `tried`: as in `one_run.best_lower_bound`.
    """
    among = guess_plans(canaries) if tried is None else tried
    return max(mu_lower_bound(canaries, plan.guesses, plan.guesses, level / len(among)) for plan in among)


def epsilon_at(mu: float, delta: float) -> float:
    """Return the exact epsilon of a mu-GDP mechanism at `delta` in 0..1, exclusive."""
    return float(exact_epsilon(mu * mu, delta))
