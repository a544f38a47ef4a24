"""Lower bound on epsilon from an attack on many independent runs with and without the target.

The attack's guesses with the target (members) and without it (others) are counted. Independent canaries may stand for
independent runs. Both error rates have exact bounds (Clopper, Pearson 1934), and every (epsilon, delta)-private
mechanism satisfies

    true positive rate <= e^epsilon false positive rate + delta,   and the same for the true and false negatives

(Kairouz, Oh, Viswanath 2015). A Gaussian mechanism satisfies Phi^-1(TPR) - Phi^-1(FPR) <= mu (Dong, Roth, Su 2019). The
threshold of the attack must be fixed in advance, or `level` divided by the number of tried thresholds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from asyncfl.privacy.estimators.intervals import upper_bound


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of guesses "included" with and without the target."""

    true_positives: int
    members: int
    """Runs with the target, >= 1."""
    false_positives: int
    others: int
    """Runs without the target, >= 1."""

    def __post_init__(self) -> None:
        if not (0 <= self.true_positives <= self.members and 0 <= self.false_positives <= self.others):
            raise ValueError(f"positives must be 0..the number of runs, got {self}")
        if not (self.members and self.others):
            raise ValueError(f"needs runs with and runs without the target, got {self}")

    def error_bounds(self, level: float) -> tuple[float, float]:
        """Return upper bounds of the false positive and false negative rates, together at confidence 1 - `level`."""
        missed = self.members - self.true_positives
        return (
            upper_bound(self.false_positives, self.others, level / 2),
            upper_bound(missed, self.members, level / 2),
        )


def epsilon_lower_bound(counts: Counts, delta: float = 0.0, level: float = 0.05) -> float:
    """Return a lower bound on epsilon, >= 0, at confidence 1 - `level`, from the `counts` of an attack's guesses.

    Source: Jagielski, Ullman, Oprea 2020, with the exact bounds above; both directions use the same two bounds.
    """
    false_positive, false_negative = counts.error_bounds(level)
    found = 0.0
    for wrong, other in ((false_positive, false_negative), (false_negative, false_positive)):
        if 1 - other - delta > 0:
            found = max(found, math.log((1 - other - delta) / wrong))
    return found


def mu_lower_bound(counts: Counts, level: float = 0.05) -> float:
    """Return a lower bound on mu, >= 0, of a Gaussian mechanism at confidence 1 - `level`, from the `counts` of an
    attack's guesses. Source: Nasr et al. 2023."""
    from scipy.special import ndtri

    false_positive, false_negative = counts.error_bounds(level)
    return max(0.0, float(-ndtri(false_positive) - ndtri(false_negative)))
