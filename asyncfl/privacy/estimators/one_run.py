"""Lower bound on epsilon from one run with many canaries (Steinke, Nasr, Jagielski 2023).

Each of m canaries is included in the data or not (or is one of two things) by an independent fair coin. An auditor
guesses r of the coins from the releases; v guesses are right. For an (epsilon, delta)-private mechanism, whatever it
does with the canaries together, v is stochastically dominated by a binomial with r trials and success probability
e^epsilon / (1 + e^epsilon), up to delta:

    P[correct >= v] <= beta + 2 m delta max_i (P[v - i <= B < v] / i),   beta = P[B >= v],   B ~ Binomial(r, .)

(theorem 5.2 there; 1 <= i <= v). An epsilon for which this is below `level` is refuted. Nothing is assumed about the
mechanism, the noise or the score. With delta > 0 the second term has weight 2 m delta. Unless that is far below 1, even
perfect guesses show little; `largest_detectable_epsilon` says how much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.estimators.guesses import GuessPlan, count_correct, guess_plans, ranking
from asyncfl.privacy.estimators.intervals import lower_bound

_HALVINGS = 48


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return the largest probability, 0..1, of this many right guesses under any (epsilon, delta)-private mechanism.

    `canaries` m >= `guesses` r >= `right` v >= 0. Source: Steinke, Nasr, Jagielski 2023, theorem 5.2.
    """
    from scipy.special import expit

    success = float(expit(epsilon))
    beta = float(_at_least(np.array([right]), guesses, success)[0])
    if delta == 0 or right == 0:
        return beta
    steps = np.arange(1, right + 1)
    just_below = np.maximum(_at_least(right - steps, guesses, success) - beta, 0.0)
    return min(1.0, beta + 2 * canaries * delta * float(np.max(just_below / steps)))


def _at_least(counts: NDArray[np.int64], tries: int, success: float) -> NDArray[np.float64]:
    """Return the probability of at least this many successes, for each count (k,) in 0..tries."""
    from scipy.special import betainc

    # An incomplete beta function, whose first parameter may not be 0.
    found: NDArray[np.float64] = betainc(np.maximum(counts, 1), tries - counts + 1, success)
    return np.where(counts == 0, 1.0, found)


def epsilon_lower_bound(canaries: int, guesses: int, right: int, delta: float, level: float = 0.05) -> float:
    """Return a lower bound on epsilon at confidence 1 - `level` from `right` of `guesses` guesses, a number fixed
    before.

    >= 0; 0 if nothing is shown. Raises ValueError for impossible counts.
    """
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
        if p_value(canaries, guesses, right, middle, delta) <= level:
            low = middle
        else:
            high = middle
    return low


@dataclass(frozen=True, slots=True)
class GuessBound:
    """Best lower bound on epsilon, and the plan that gives it."""

    epsilon: float
    """Lower bound; 0: nothing is shown."""
    guesses: int
    """r of the best plan; 0 if nothing is shown."""
    right: int
    """v of the best plan."""


def best_lower_bound(
    scores: NDArray[np.float64],
    included: NDArray[np.bool_],
    delta: float,
    level: float = 0.05,
    tried: Sequence[GuessPlan] | None = None,
) -> GuessBound:
    """Return the largest lower bound on epsilon over all plans, at confidence 1 - `level` for all of them together.

    `scores`: (m,) high if a canary looks trained on; `included`: (m,) whether each was; `tried`: plans fixed before,
    None: `guess_plans(m)`. Each plan gets `level` divided by their number, so that the best may be chosen.
    """
    order, among = ranking(scores), guess_plans(len(scores)) if tried is None else tried
    best = GuessBound(0.0, 0, 0)
    for plan in among:
        right = count_correct(order, included, plan)
        epsilon = epsilon_lower_bound(len(scores), plan.guesses, right, delta, level / len(among))
        if epsilon > best.epsilon:
            best = GuessBound(epsilon, plan.guesses, right)
    return best


def largest_detectable_epsilon(
    canaries: int, delta: float, level: float = 0.05, tried: Sequence[GuessPlan] | None = None
) -> float:
    """Return the largest epsilon that `best_lower_bound` can show with this many canaries, if all guesses are right.

    `level`, `tried`: as in `best_lower_bound`.
    """
    among = guess_plans(canaries) if tried is None else tried
    return max(epsilon_lower_bound(canaries, plan.guesses, plan.guesses, delta, level / len(among)) for plan in among)
