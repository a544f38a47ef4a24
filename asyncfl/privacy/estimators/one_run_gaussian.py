"""What one run with many canaries shows about mu of a mechanism that is Gaussian (Mahloujifar, Melis, Chaudhuri 2024).

`one_run` assumes nothing and pays for it: it bounds what any (epsilon, delta)-private mechanism could do. Where the
releases are Gaussian, the whole trade-off curve is known up to mu, and more can be told from the same guesses. What is
refuted then is that the mechanism is mu-GDP, not that it is (epsilon, delta)-private in some other way: the epsilon
that follows from mu is a lower bound for Gaussian mechanisms only.

Let h_i and w_i be the largest weighted probabilities, summed from i right guesses on, of guesses that are right and
wrong. The trade-off curve bounds the wrong ones from below by what is right, h -> Phi(Phi^-1(h) - mu), and so from `c`
right of `r` guesses one goes down step by step (algorithm 3 there); where what is needed exceeds r / m, the number of
guesses for each canary, so many right ones were less probable than `level`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.estimators.guesses import GuessPlan, count_correct, guess_plans, ranking

_POINTS = 33
"""Values of mu that are tried at once; each round leaves one of the gaps between them."""
_ROUNDS = 5
_LARGEST = 40.0
"""Beyond this mu every coin is known: the errors of a test are below the smallest float64."""


def refuted(canaries: int, guesses: int, right: int, mus: NDArray[np.float64], level: float) -> NDArray[np.bool_]:
    """(k,) whether so many right guesses are less probable than `level` under mu-GDP, for each of `mus` (k,), >= 0.

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
    """Lower bound on mu at confidence 1 - `level` from `right` of `guesses` guesses; 0 where nothing is shown.

    At most 40. Raises ValueError where the numbers cannot be.
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
    """The largest lower bound on mu of all plans, at confidence 1 - `level` for all of them together.

    Arguments as of `one_run.best_lower_bound`.
    """
    order, among = ranking(scores), guess_plans(len(scores)) if tried is None else tried
    return max(
        mu_lower_bound(len(scores), plan.guesses, count_correct(order, included, plan), level / len(among))
        for plan in among
    )


def largest_detectable_mu(canaries: int, level: float = 0.05, tried: Sequence[GuessPlan] | None = None) -> float:
    """The largest mu that `best_mu_lower_bound` could show with so many canaries, all guesses being right."""
    among = guess_plans(canaries) if tried is None else tried
    return max(mu_lower_bound(canaries, plan.guesses, plan.guesses, level / len(among)) for plan in among)


def epsilon_at(mu: float, delta: float) -> float:
    """Epsilon of a mu-GDP mechanism at `delta` in 0..1, exclusive; exact."""
    return float(exact_epsilon(mu * mu, delta))
