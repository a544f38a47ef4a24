"""Receiver operating characteristic of membership scores, with confidence intervals.

What counts is the share of members found with hardly any false positive (Carlini et al. 2022). The true false positive
rate at the k-th largest of n non-members' scores is distributed as Beta(k, n + 1 - k). So one order statistic is above
the true threshold and one below it, each with probability 1 - level/4; there the true positive rate has exact bounds
(Clopper, Pearson 1934) at level/4 each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.estimators.intervals import lower_bound, upper_bound

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
    low: float
    high: float
    """95 % confidence interval of the true positive rate at exactly the false positive rate that was asked for."""

    @property
    def rate(self) -> float:
        """True positive rate."""
        return self.true_positives / self.members


def at_false_rate(members: Floats, others: Floats, rate: float = 0.01) -> RocPoint:
    """Return the result at the threshold that finds most members with at most this false positive `rate` (0..1).

    `members`: (m,), `others`: (n,), scores that are higher for members. Raises ValueError for fewer than 200 others,
    without members, and for NaN scores.
    """
    _check(members, others)
    if len(others) < LEAST_OTHERS:
        raise ValueError(f"needs at least {LEAST_OTHERS} non-members, got {len(others)}")
    allowed = int(np.floor(rate * len(others) + 1e-9))
    falling = np.sort(others)[::-1]
    threshold = falling[allowed] if allowed < len(others) else -np.inf
    found, wrong = int((members > threshold).sum()), int((others > threshold).sum())
    return RocPoint(found, len(members), wrong, len(others), *_rate_interval(members, falling, rate))


def _rate_interval(members: Floats, falling: Floats, rate: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of the true positive rate at the false positive `rate`; see the module."""
    from scipy.stats import binom

    level, n = (1 - confidence) / 4, len(falling)
    # P(Beta(k, n + 1 - k) > rate) = P(Binomial(n, rate) <= k - 1).
    at_most = binom.cdf(np.arange(n), n, rate)
    above = np.flatnonzero(at_most <= level)
    below = np.flatnonzero(1 - at_most <= level)
    strict = members > falling[above[-1]] if len(above) else np.zeros(len(members), bool)
    loose = members >= falling[below[0]] if len(below) else np.ones(len(members), bool)
    return (lower_bound(int(strict.sum()), len(members), level), upper_bound(int(loose.sum()), len(members), level))


def curve(members: Floats, others: Floats) -> tuple[Floats, Floats]:
    """Return (k,) false and (k,) true positive rates of all thresholds, from (0, 0) to (1, 1). Raises ValueError as
    `at_false_rate`."""
    _check(members, others)
    thresholds = np.unique(np.concatenate([members, others]))[::-1]
    false = np.searchsorted(np.sort(-others), -thresholds, side="right") / len(others)
    true = np.searchsorted(np.sort(-members), -thresholds, side="right") / len(members)
    return np.concatenate([[0.0], false]), np.concatenate([[0.0], true])


def area(members: Floats, others: Floats) -> float:
    """Return the probability that a member scores higher than a non-member, ties counted half."""
    false, true = curve(members, others)
    return float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2))


def area_interval(members: Floats, others: Floats, confidence: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval of the area under the curve, by DeLong's variance on the logit scale.

    Where that variance is 0 or a side has a single score, Hoeffding's bound over independent pairs. Source: DeLong,
    DeLong, Clarke-Pearson 1988; logit: Pepe 2003, section 5.2.
    """
    from scipy.special import expit, logit, ndtri

    found, pairs = area(members, others), min(len(members), len(others))
    placements = _placements(members, others)
    variance = sum(float(np.var(placed)) / max(len(placed) - 1, 1) for placed in placements)
    if pairs == 1 or not variance:
        half = math.sqrt(math.log(2 / (1 - confidence)) / (2 * pairs))
        return max(found - half, 0.0), min(found + half, 1.0)
    half = float(ndtri((1 + confidence) / 2)) * variance**0.5 / (found * (1 - found))
    return float(expit(logit(found) - half)), float(expit(logit(found) + half))


def _placements(members: Floats, others: Floats) -> tuple[Floats, Floats]:
    placed = []
    for one, among in ((members, np.sort(others)), (-others, np.sort(-members))):
        sides = [np.searchsorted(among, one, side) for side in ("left", "right")]
        placed.append((sides[0] + sides[1]) / (2 * len(among)))
    return placed[0], placed[1]


def _check(members: Floats, others: Floats) -> None:
    if not len(members) or not len(others):
        raise ValueError(f"needs members and non-members, got {len(members)} and {len(others)}")
    if np.isnan(members).any() or np.isnan(others).any():
        raise ValueError("scores must be numbers, got NaN")
