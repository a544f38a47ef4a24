"""Fit a distribution to a sample: each family by maximum likelihood, the best family by Akaike's criterion.

A right-censored value (a training cut off by the end of the run) contributes the probability of a larger value (Klein &
Moeschberger, Survival Analysis, 2003, section 3.5). For families with a smallest value, its estimate is the smallest
value of the sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

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


def fit_distribution(exact: Floats, cut_off: Floats | None = None, *, periods: bool = False) -> FittedShape:
    """Fit a distribution to a sample of non-negative values: the likeliest family, a constant for a small sample.

    `exact`: (n,) n >= 1 uncensored values. `cut_off`: right-censored values; None: none. `periods`: consider only
    distributions with a finite mean.
    """
    exact = np.sort(exact)
    cut_off = np.empty(0) if cut_off is None else cut_off
    top = float(exact[-1])
    if top - exact[0] <= SAME * top + TINY or len(exact) < FEWEST:
        return FittedShape(Fixed(value=float(exact.mean())), 0.0, {"fixed": -math.inf})
    shares = np.asarray((np.arange(len(exact)) + 0.5) / len(exact))
    if len(cut_off):
        # Kaplan and Meier's estimate, in the middle of each step.
        above = stats.ecdf(stats.CensoredData(uncensored=exact, right=cut_off)).cdf.evaluate(exact)
        shares = np.asarray((above + np.concatenate([[0.0], above[:-1]])) / 2, dtype=np.float64)
    compared: dict[str, float] = {}
    best: tuple[float, Distribution, Any] | None = None
    for name, fit in FAMILIES.items():
        made = fit(exact, cut_off)
        if made is None or (periods and not math.isfinite(made[0].expected())):
            continue
        distribution, law = made
        likelihood = float(law.logpdf(exact).sum() + law.logsf(cut_off).sum())
        if not math.isfinite(likelihood):
            continue
        compared[name] = 4 - 2 * likelihood
        if best is None or likelihood > best[0]:
            best = likelihood, distribution, law
    assert best is not None  # the exponential fits any sample
    gap = float(np.abs(np.interp(exact, best[2].ppf(shares), shares) - shares).max())
    return FittedShape(best[1], gap, compared)


def of_mean_one(distribution: Distribution) -> Distribution:
    """Return a distribution scaled to mean 1; the constant 1 where it has no finite mean."""
    mean = distribution.expected()
    if isinstance(distribution, Fixed) or not np.isfinite(mean):
        return Fixed(value=1.0)
    return distribution.model_copy(
        update={name: getattr(distribution, name) / mean for name in SCALED[type(distribution)]}
    )


def _uniform(exact: Floats, cut_off: Floats) -> tuple[Distribution, Any] | None:
    low, high = float(exact[0]), float(exact[-1])
    if len(cut_off):
        most = max(high, float(cut_off.max()))

        def against(end: float) -> float:
            law = stats.uniform(low, end - low)
            return -float(law.logpdf(exact).sum() + law.logsf(cut_off).sum())

        # The end lies beyond all values, and at most at a hundred times the largest.
        high = float(optimize.minimize_scalar(against, bounds=(most * (1 + 1e-9), 100 * most), method="bounded").x)
    return Uniform(low=low, high=high), stats.uniform(low, high - low)


def _exponential(exact: Floats, cut_off: Floats) -> tuple[Distribution, Any] | None:
    low = float(exact[0])
    scale = float((exact - low).sum() + np.maximum(cut_off - low, 0).sum()) / len(exact)
    return Exponential(mean=low + scale, minimum=low), stats.expon(low, scale)


def _lognormal(exact: Floats, cut_off: Floats) -> tuple[Distribution, Any] | None:
    if exact[0] <= 0:
        return None
    logs = np.log(exact)
    mean, sigma = float(logs.mean()), float(logs.std())
    if len(later := cut_off[cut_off > 0]):

        def against(at: Floats) -> float:
            law = stats.norm(at[0], math.exp(at[1]))
            return -float(law.logpdf(logs).sum() + law.logsf(np.log(later)).sum())

        found = optimize.minimize(against, (mean, math.log(sigma)), method="Nelder-Mead").x
        mean, sigma = float(found[0]), math.exp(float(found[1]))
    sigma = min(sigma, 10.0)
    return Lognormal(median=math.exp(mean), sigma=sigma), stats.lognorm(sigma, scale=math.exp(mean))


def _pareto(exact: Floats, cut_off: Floats) -> tuple[Distribution, Any] | None:
    low = float(exact[0])
    if low <= 0:
        return None
    spread = float(np.log(exact / low).sum() + np.log(np.maximum(cut_off / low, 1)).sum())
    alpha = max(len(exact) / spread, 0.1)
    return Pareto(minimum=low, alpha=alpha), stats.pareto(alpha, scale=low)


FAMILIES: dict[str, Callable[[Floats, Floats], tuple[Distribution, Any] | None]] = {
    "uniform": _uniform,
    "exponential": _exponential,
    "lognormal": _lognormal,
    "pareto": _pareto,
}
"""Family -> function of uncensored values (n,), ascending, and right-censored values (m,). It returns the likeliest
distribution of the family as a component and as a scipy distribution; None: the family cannot fit the sample."""
