"""Fit a distribution to a sample: each family by maximum likelihood, the best family by Akaike's criterion.

For families with a smallest value, its estimate is the smallest value of the sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from asyncfl.base.component import kind_of
from asyncfl.world.distributions import Distribution, Exponential, Fixed, Lognormal, Pareto, Uniform

Floats: TypeAlias = NDArray[np.float64]
SAME = 1e-4  # spread relative to the largest value up to which a quantity counts as constant
TINY = 1e-9  # absolute spread, in the unit of the quantity, up to which it counts as constant
FEWEST = 8  # smallest sample to which a family is fitted. Smaller samples give their mean, as a constant

SCALED = {
    Fixed: ("value",),
    Uniform: ("low", "high"),
    Exponential: ("mean", "minimum"),
    Lognormal: ("median",),
    Pareto: ("minimum",),
}
"""Family -> its fields that have the unit of the quantity."""


@dataclass(frozen=True)
class FittedShape:
    """A distribution fitted to a sample, and its goodness of fit."""

    distribution: Distribution
    gap: float  # largest difference between the distribution functions of sample and distribution, 0..1
    compared: dict[str, float]  # family -> Akaike's criterion, `2 parameters - 2 log-likelihood`. The smallest is best


def fit_distribution(exact: Floats, *, periods: bool = False) -> FittedShape:
    """Fit a distribution to a sample of non-negative values: the likeliest family, a constant for a small sample.

    `exact`: (n,) n >= 1 values. `periods`: consider only distributions with a finite mean.
    """
    exact = np.sort(exact)
    top = float(exact[-1])
    if top - exact[0] <= SAME * top + TINY or len(exact) < FEWEST:
        return FittedShape(Fixed(value=float(exact.mean())), 0.0, {"fixed": -math.inf})
    shares = (np.arange(len(exact)) + 0.5) / len(exact)
    made = [one for one in (fit(exact) for fit in FAMILIES) if one is not None]
    fitted = [(float(law.logpdf(exact).sum()), one, law) for one, law in made]
    allowed = [one for one in fitted if math.isfinite(one[0]) and (not periods or math.isfinite(one[1].expected()))]
    compared = {kind_of(one): 4 - 2 * likelihood for likelihood, one, _ in allowed}
    _, best, law = max(allowed, key=lambda one: one[0])  # the exponential fits any sample
    return FittedShape(best, float(np.abs(np.interp(exact, law.ppf(shares), shares) - shares).max()), compared)


def of_mean_one(distribution: Distribution) -> Distribution:
    """Return a distribution scaled to mean 1; the constant 1 where it has no finite mean."""
    mean = distribution.expected()
    if isinstance(distribution, Fixed) or not np.isfinite(mean):
        return Fixed(value=1.0)
    return distribution.model_copy(
        update={name: getattr(distribution, name) / mean for name in SCALED[type(distribution)]}
    )


def _uniform(exact: Floats) -> tuple[Distribution, Any]:
    low, high = float(exact[0]), float(exact[-1])
    return Uniform(low=low, high=high), stats.uniform(low, high - low)


def _exponential(exact: Floats) -> tuple[Distribution, Any]:
    low, mean = float(exact[0]), float(exact.mean())
    return Exponential(mean=mean, minimum=low), stats.expon(low, mean - low)


def _lognormal(exact: Floats) -> tuple[Distribution, Any] | None:
    if exact[0] <= 0:
        return None
    logs = np.log(exact)
    median, sigma = math.exp(float(logs.mean())), min(float(logs.std()), 10.0)
    return Lognormal(median=median, sigma=sigma), stats.lognorm(sigma, scale=median)


def _pareto(exact: Floats) -> tuple[Distribution, Any] | None:
    low = float(exact[0])
    if low <= 0:
        return None
    alpha = max(len(exact) / float(np.log(exact / low).sum()), 0.1)
    return Pareto(minimum=low, alpha=alpha), stats.pareto(alpha, scale=low)


FAMILIES: tuple[Callable[[Floats], tuple[Distribution, Any] | None], ...] = (
    _uniform,
    _exponential,
    _lognormal,
    _pareto,
)
"""Functions of values (n,), ascending, that return the likeliest distribution of a family as a component and as a scipy
distribution; None: the family cannot fit the sample."""
