"""Receiver operating characteristic of membership scores, with exact confidence intervals.

A useless attack and a dangerous one can look alike on average. What counts is the share of members found with hardly
any false positive (Carlini et al. 2022).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.estimators.intervals import interval

Floats = NDArray[np.float64]

LEAST_OTHERS = 200
"""Fewest non-members: of fewer, 1 % is less than two."""


@dataclass(frozen=True, slots=True)
class RocPoint:
    """Result of an attack at one threshold."""

    true_positives: int
    members: int
    false_positives: int
    others: int

    @property
    def rate(self) -> float:
        """True positive rate."""
        return self.true_positives / self.members

    @property
    def rate_interval(self) -> tuple[float, float]:
        """Exact 95 % confidence interval of the true positive rate."""
        return interval(self.true_positives, self.members)


def at_false_rate(members: Floats, others: Floats, rate: float = 0.01) -> RocPoint:
    """Return the result at the threshold that finds most members with at most this false positive `rate` (0..1).

    `members`: (m,), `others`: (n,), scores that are higher for members. Raises ValueError for fewer than 200 others,
    without members, and for NaN scores.
    """
    _check(members, others)
    if len(others) < LEAST_OTHERS:
        raise ValueError(f"needs at least {LEAST_OTHERS} non-members, got {len(others)}")
    allowed = int(np.floor(rate * len(others) + 1e-9))
    threshold = np.sort(others)[::-1][allowed] if allowed < len(others) else -np.inf
    return RocPoint(int((members > threshold).sum()), len(members), int((others > threshold).sum()), len(others))


def curve(members: Floats, others: Floats) -> tuple[Floats, Floats]:
    """Return (k,) false and (k,) true positive rates of all thresholds, from (0, 0) to (1, 1).

    `members`, `others`: scores as in `at_false_rate`. Raises ValueError without members or others, and for NaN scores.
    """
    _check(members, others)
    thresholds = np.unique(np.concatenate([members, others]))[::-1]
    false = np.searchsorted(np.sort(-others), -thresholds, side="right") / len(others)
    true = np.searchsorted(np.sort(-members), -thresholds, side="right") / len(members)
    return np.concatenate([[0.0], false]), np.concatenate([[0.0], true])


def area(members: Floats, others: Floats) -> float:
    """Return the area under the curve: the probability that a member scores higher than a non-member, ties counted
    half."""
    false, true = curve(members, others)
    return float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2))


def _check(members: Floats, others: Floats) -> None:
    if not len(members) or not len(others):
        raise ValueError(f"needs members and non-members, got {len(members)} and {len(others)}")
    if np.isnan(members).any() or np.isnan(others).any():
        raise ValueError("scores must be numbers, got NaN")
