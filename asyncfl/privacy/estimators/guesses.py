"""Guesses about which canaries were included in training, and the number of correct guesses.

An auditor ranks the canaries by a score that is high if a canary looks trained on, guesses "included" for the highest
and "excluded" for the lowest scores, and abstains for those in between. The number of guesses decides how much can be
shown: few guesses are more reliable, many are stronger evidence. It must not be chosen after seeing the scores. So
`guess_plans` names at most three plans, by the number of canaries alone, and a bound that is the best of several plans
shares the error among them (Bonferroni). In simulations of Gaussian mechanisms (mu 0.5 to 8, 100 to 1,000 canaries)
their best bound on mu is 2 to 18 % above that of the five to eleven plans from all canaries down to 16.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAST = 16
"""Fewest guesses of a plan: fewer show almost nothing even if all are right."""


@dataclass(frozen=True, slots=True)
class GuessPlan:
    """Numbers of canaries guessed to be included and excluded."""

    included: int
    excluded: int

    @property
    def guesses(self) -> int:
        """r: total number of guesses."""
        return self.included + self.excluded


def guess_plans(canaries: int) -> tuple[GuessPlan, ...]:
    """Return the plans of an auditor with this many canaries, fixed before any score is known.

    Half of the canaries, best for large mu, and a quarter, best for small mu; half of the guesses "included" and half
    "excluded". A quarter is also guessed "included" only, since some attacks recognise members far better than
    non-members. No plan has fewer than `LEAST` guesses, except for fewer canaries. Raises ValueError without canaries.
    """
    if canaries < 1:
        raise ValueError(f"an audit needs at least one canary, got {canaries}")
    half, quarter = max(canaries // 2, min(canaries, LEAST)), canaries // 4
    found = [GuessPlan(half - half // 2, half // 2)]
    if quarter >= LEAST:
        found += [GuessPlan(quarter - quarter // 2, quarter // 2), GuessPlan(quarter, 0)]
    return tuple(found)


def ranking(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return (m,) the canaries from the highest score to the lowest; ties by index.

    `scores`: (m,). NaN is no evidence and is placed in the middle.
    """
    known = scores[~np.isnan(scores)]
    middle = float(np.median(known)) if len(known) else 0.0
    order: NDArray[np.int64] = np.argsort(-np.where(np.isnan(scores), middle, scores), kind="stable")
    return order


def count_correct(order: NDArray[np.int64], included: NDArray[np.bool_], plan: GuessPlan) -> int:
    """Return v, the number of correct guesses of a plan. `order`: (m,) from `ranking`; `included`: (m,) whether each
    canary was included in training."""
    right = int(included[order[: plan.included]].sum())
    if plan.excluded:
        right += int((~included[order[-plan.excluded :]]).sum())
    return right
