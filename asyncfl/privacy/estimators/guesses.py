"""Which canaries are guessed to be in, which out, and how often that is right.

An auditor ranks the canaries by a score that is high where a canary looks trained on, takes the highest for in and the
lowest for out, and says nothing about those between. How many it guesses decides how much it can show: few guesses are
surer, many are stronger evidence. The numbers must not be picked after the scores were seen. So `plans` lists them from
the number of canaries alone, and a bound that is the best of them takes each at its share of the error (Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAST = 16
"""Fewest guesses of a plan: with fewer, even if all are right, next to nothing is shown."""


@dataclass(frozen=True, slots=True)
class GuessPlan:
    """How many canaries are guessed to be in, and how many out."""

    included: int
    excluded: int

    @property
    def guesses(self) -> int:
        """r: how many are guessed at all."""
        return self.included + self.excluded


def guess_plans(canaries: int) -> tuple[GuessPlan, ...]:
    """What an auditor of so many canaries tries, fixed before any score is known.

    All of them, half, a quarter and so on down to `LEAST`, half of the guesses in and half out; and, since some attacks
    know members far better than others, the same numbers from a half on with all guesses in. Raises ValueError for no
    canary.
    """
    if canaries < 1:
        raise ValueError(f"an audit needs at least one canary, got {canaries}")
    found = [GuessPlan(canaries - canaries // 2, canaries // 2)]
    guesses = canaries // 2
    while guesses >= LEAST:
        found += [GuessPlan(guesses - guesses // 2, guesses // 2), GuessPlan(guesses, 0)]
        guesses //= 2
    return tuple(found)


def ranking(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """(m,) the canaries from the highest score to the lowest; equal ones, and what is no number, by their place.

    `scores`: (m,); NaN is no sign of membership and stands in the middle, as a canary nothing is known about.
    """
    known = scores[~np.isnan(scores)]
    middle = float(np.median(known)) if len(known) else 0.0
    order: NDArray[np.int64] = np.argsort(-np.where(np.isnan(scores), middle, scores), kind="stable")
    return order


def count_correct(order: NDArray[np.int64], included: NDArray[np.bool_], plan: GuessPlan) -> int:
    """v: how many guesses of a plan are right. `order`: (m,) from `ranking`; `included`: (m,) what the coins said."""
    right = int(included[order[: plan.included]].sum())
    if plan.excluded:
        right += int((~included[order[-plan.excluded :]]).sum())
    return right
