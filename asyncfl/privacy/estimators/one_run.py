"""Lower bounds from one run with many canaries, each included by an independent fair coin.

An auditor guesses r of the m coins; v guesses are right. For any (epsilon, delta)-private mechanism (Steinke, Nasr,
Jagielski 2023, theorem 5.2), with B ~ Binomial(r, e^epsilon / (1 + e^epsilon)),

    P[correct >= v] <= beta + 2 m delta max_i (P[v - i <= B < v] / i),   beta = P[B >= v],   1 <= i <= v

For Gaussian releases the whole trade-off curve is known up to mu, and the same guesses show more (Mahloujifar, Melis,
Chaudhuri 2024): then the refuted hypothesis is that the mechanism is mu-GDP. The number of guesses must not be chosen
after seeing the scores, so `guess_plans` fixes at most three plans, which share the error (Bonferroni).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.estimators.intervals import lower_bound

_HALVINGS = 48


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return the largest probability, 0..1, of v = `right` of r = `guesses` guesses under any (epsilon, delta)-private
    mechanism."""
    from scipy.special import bdtrc, expit

    steps = np.arange(right + 1)
    at_least = bdtrc(right - steps - 1.0, guesses, expit(epsilon))  # P[B >= v - i] for each i in 0..v
    beta = float(at_least[0])
    if delta == 0 or right == 0:
        return beta
    just_below = np.maximum(at_least[1:] - beta, 0.0)
    return min(1.0, beta + 2 * canaries * delta * float(np.max(just_below / steps[1:])))


def epsilon_lower_bound(canaries: int, guesses: int, right: int, delta: float, level: float = 0.05) -> float:
    """Return a lower bound on epsilon, >= 0, at confidence 1 - `level` from `right` of `guesses` guesses. Raises
    ValueError for impossible counts."""
    if not 0 <= right <= guesses <= canaries:
        raise ValueError(f"needs 0 <= right <= guesses <= canaries, got {right}, {guesses} and {canaries}")
    if not guesses:
        return 0.0
    success = lower_bound(right, guesses, level)
    if success <= 0.5:
        return 0.0
    pure = math.log(success / (1 - success))
    if delta == 0:
        return pure
    if p_value(canaries, guesses, right, 0.0, delta) > level:
        return 0.0
    # The term with delta refutes less, so the answer is below the pure bound.
    low, high = 0.0, pure
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        refuted = p_value(canaries, guesses, right, middle, delta) <= level
        low, high = (middle, high) if refuted else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class GuessBound:
    """Best lower bound on epsilon, and the plan that gives it."""

    epsilon: float  # lower bound; 0: nothing is shown
    guesses: int  # r of the best plan; 0 if nothing is shown
    right: int  # v of the best plan


def best_lower_bound(
    scores: NDArray[np.float64], included: NDArray[np.bool_], delta: float, level: float = 0.05
) -> GuessBound:
    """Return the largest lower bound on epsilon over all plans, at confidence 1 - `level` for all of them together.

    `scores`: (m,) high if a canary looks trained on; `included`: (m,) whether each was.
    """
    best, m, counted = GuessBound(0.0, 0, 0), len(scores), _counted(scores, included)
    for guesses, right in counted:
        epsilon = epsilon_lower_bound(m, guesses, right, delta, level / len(counted))
        if epsilon > best.epsilon:
            best = GuessBound(epsilon, guesses, right)
    return best


def largest_detectable_epsilon(canaries: int, delta: float, level: float = 0.05) -> float:
    """Return the largest epsilon that `best_lower_bound` can show with this many canaries, if all guesses are right."""
    sizes = [sum(plan) for plan in guess_plans(canaries)]
    return max(epsilon_lower_bound(canaries, guesses, guesses, delta, level / len(sizes)) for guesses in sizes)


LEAST = 16
"""Fewest guesses of a plan: fewer show almost nothing even if all are right."""


def guess_plans(canaries: int) -> tuple[tuple[int, int], ...]:
    """Return the plans of an auditor with this many canaries, fixed before any score is known: numbers of canaries
    guessed to be included and excluded.

    Half of the canaries, best for large mu, and a quarter, best for small mu; half of the guesses "included" and half
    "excluded". A quarter is also guessed "included" only, since some attacks recognise members far better than
    non-members. Raises ValueError without canaries.
    """
    if canaries < 1:
        raise ValueError(f"an audit needs at least one canary, got {canaries}")
    half, quarter = max(canaries // 2, min(canaries, LEAST)), canaries // 4
    more = ((quarter - quarter // 2, quarter // 2), (quarter, 0)) if quarter >= LEAST else ()
    return (half - half // 2, half // 2), *more


def _counted(scores: NDArray[np.float64], included: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return (r, v) of each plan, where canaries are guessed from the highest score on; ties by index, NaN in the
    middle."""
    known = scores[~np.isnan(scores)]
    middle = float(np.median(known)) if len(known) else 0.0
    coins = included[np.argsort(-np.where(np.isnan(scores), middle, scores), kind="stable")]
    return [
        (ins + outs, int(coins[:ins].sum() + (~coins[len(coins) - outs :]).sum()))
        for ins, outs in guess_plans(len(scores))
    ]


_POINTS, _ROUNDS = 33, 5  # values of mu tried at once, of which each round keeps one gap
_LARGEST = 40.0  # mu, beyond which every coin is known


def refuted(canaries: int, guesses: int, right: int, mus: NDArray[np.float64], level: float) -> NDArray[np.bool_]:
    """Return (k,) whether this many right guesses have a probability below `level` under mu-GDP, for each of `mus` (k,)
    >= 0 (algorithm 3 of the source)."""
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
    """Return a lower bound on mu, 0..40, at confidence 1 - `level` from `right` of `guesses` guesses. Raises ValueError
    for impossible counts."""
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


def best_mu_lower_bound(scores: NDArray[np.float64], included: NDArray[np.bool_], level: float = 0.05) -> float:
    """Return the largest lower bound on mu over all plans; arguments as in `best_lower_bound`."""
    counted = _counted(scores, included)
    return max(mu_lower_bound(len(scores), guesses, right, level / len(counted)) for guesses, right in counted)


def epsilon_at(mu: float, delta: float) -> float:
    """Return the exact epsilon of a mu-GDP mechanism at `delta` in 0..1, exclusive."""
    return float(exact_epsilon(mu * mu, delta))
