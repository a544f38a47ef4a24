"""What unequal budgets cost, and the constant budgets that spend as much as varying ones.

The mean of n uploads with noise c Delta/epsilon_i carries c Delta sqrt(sum epsilon_i^-2)/n. For a fixed sum of budgets
that is least where all are equal (Jensen): a federation pays in noise for giving its clients different budgets.

A budget that grows over a run spends more than the one it began with. Whoever compares it with a constant budget has
to give that one as much: with the same sum over the run (`naive` composition), or with the same sum of squares, which
is what Renyi accounting of Gaussian noise goes by (`rdp`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

Spend = Literal["naive", "rdp"]


def mean_noise(epsilons: Sequence[float]) -> float:
    """Standard deviation of the noise on the mean of the uploads, in units of c Delta. `epsilons`: > 0, by client."""
    return math.sqrt(math.fsum(epsilon**-2 for epsilon in epsilons)) / len(epsilons)


def variance_ratio(epsilons: Sequence[float], others: Sequence[float]) -> float:
    """Variance of the noise on the mean under `epsilons` over that under `others`."""
    return (mean_noise(epsilons) / mean_noise(others)) ** 2


def uniform_budget(epsilons: Sequence[float]) -> float:
    """The budget of each client with which all spend the same sum alike."""
    return math.fsum(epsilons) / len(epsilons)


def constant_budget(spent: Sequence[float], measure: Spend) -> float:
    """Constant epsilon that spends over the same number of uploads what `spent` (one per upload, at least one) did.

    `naive`: the same sum. `rdp`: the same sqrt(mean epsilon^2), never smaller. Infinite where one of `spent` is.
    """
    try:
        return _constant_budget(spent, measure)
    except OverflowError:
        # The sum or the squares are beyond the floats, the mean is not.
        largest = max(spent)
        return largest * _constant_budget([epsilon / largest for epsilon in spent], measure)


def _constant_budget(spent: Sequence[float], measure: Spend) -> float:
    if measure == "naive":
        return math.fsum(spent) / len(spent)
    return math.sqrt(math.fsum(epsilon**2 for epsilon in spent) / len(spent))
