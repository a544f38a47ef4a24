"""Calibration: the noise multiplier that keeps several releases of the same data within one budget.

`naive` is NbAFL's theorem 1: sigma grows linearly with the number of releases. It is NbAFL's default because the
paper's figures were drawn with it; strictly it gives (epsilon, releases x delta). Not NbAFL's default:

- `naive_delta_split` spends delta/releases on each release, which repairs that.
- `advanced` gives each release its share by advanced composition, with half of delta as slack (all of it for Laplace
  noise); for few releases or a large epsilon it needs more noise than the naive rule.
- `analytic` is exact (for Laplace noise by loss distributions), far less noise than the paper adds.
- `rdp` calibrates by Renyi accounting; slightly more noise than `analytic`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from asyncfl.privacy.accounting.accountants import Accountant, epsilon_by, epsilon_of_curves, gaussian_curve
from asyncfl.privacy.accounting.gaussian import (
    analytic_multiplier,
    classical_constant,
    classical_limit,
    smallest_sufficient,
    squared_mu_of,
)
from asyncfl.privacy.accounting.mechanism_events import MechanismEvent, Neighbours

Composition = Literal["naive", "naive_delta_split", "advanced", "analytic", "rdp"]
Sharing = Literal["naive_delta_split", "advanced", "analytic", "rdp"]
Calibration = Literal["classical", "analytic"]

WITH_C1: tuple[Composition, ...] = ("naive", "naive_delta_split", "advanced")
"""Compositions that calibrate each release classically."""

_LARGEST_EXPONENT = 700.0  # a larger share exceeds every budget
_PRECISION = 1e-12  # relative, of a multiplier
_LEAST = 1e-12  # multiplier; if less noise is enough, delta alone is
_FAR = 700.0  # bound on |ln epsilon|


@dataclass(frozen=True, slots=True)
class ClassicalRelease:
    """One release with noise sigma = constant c1 sensitivity/epsilon for a budget of its own."""

    epsilon: float
    delta: float
    constant: float = 1.0

    @property
    def past_its_limit(self) -> bool:
        """Whether the release exceeds its budget."""
        return self.epsilon > classical_limit(self.delta, self.constant)


@lru_cache(maxsize=1024)
def advanced_share(epsilon: float, slack: float, releases: int) -> float:
    """Return the root epsilon_0 of sqrt(2 releases ln(1/slack)) epsilon_0 + releases epsilon_0 (e^epsilon_0 - 1) =
    epsilon (Dwork, Rothblum, Vadhan 2010)."""
    factor, most = math.log(-2 * releases * math.log(slack)) / 2, min(epsilon, _LARGEST_EXPONENT)

    def missing(inverse: float) -> float:
        share = 1 / inverse
        # In logarithms, because e to a large share overflows.
        grown = math.log(releases) + share + math.log(-math.expm1(-share))
        return float(np.logaddexp(factor, grown)) + math.log(share) - math.log(epsilon)

    return min(most, 1 / smallest_sufficient(missing, 1 / most))


def classical_share(
    releases: int, epsilon: float, delta: float, composition: Composition = "naive", constant: float = 1.0
) -> ClassicalRelease:
    """Return one of `releases` >= 1 that share a budget by a composition with a c1, with its own epsilon and delta."""
    if composition == "advanced":
        slack = delta / 2
        return ClassicalRelease(advanced_share(epsilon, slack, releases), slack / releases, constant)
    own_delta = delta / releases if composition == "naive_delta_split" else delta
    return ClassicalRelease(epsilon / releases, own_delta, constant)


def noise_multiplier(
    releases: int,
    epsilon: float,
    delta: float,
    constant: float = 1.0,
    composition: Composition = "naive",
    calibration: Calibration = "classical",
    mechanism: Literal["gaussian", "laplace"] = "gaussian",
) -> float:
    """Return the standard deviation over L2 sensitivity (Laplace: scale over L1 sensitivity) of each of `releases`; 0
    for none and for infinite epsilon.

    `epsilon` > 0 and `delta` (0..1, exclusive) are the budget of all releases together; an even split of a Laplace
    budget needs no `delta`. `constant` multiplies c1 and `calibration` is the rule for one Gaussian release;
    compositions `analytic` and `rdp` ignore both. Source: NbAFL, definition 2 and theorem 1.
    """
    if releases == 0 or math.isinf(epsilon):
        return 0.0
    if composition == "analytic" or composition == "rdp":
        accountant: Accountant = "exact" if composition == "analytic" else "rdp"
        return multiplier_for(epsilon, delta, mechanism, releases, accountant=accountant) or 0.0
    if mechanism == "laplace":
        return 1 / (advanced_share(epsilon, delta, releases) if composition == "advanced" else epsilon / releases)
    one = classical_share(releases, epsilon, delta, composition)
    if calibration == "analytic":
        return analytic_multiplier(one.epsilon, one.delta)
    factor = constant * classical_constant(one.delta)
    return factor / one.epsilon if composition == "advanced" else factor * releases / epsilon


@lru_cache(maxsize=1024)
def multiplier_for(
    epsilon: float,
    delta: float,
    mechanism: Literal["gaussian", "laplace"] = "gaussian",
    releases: int = 1,
    rate: float = 1.0,
    neighbours: Neighbours = "add_remove",
    accountant: Accountant = "exact",
) -> float | None:
    """Return the noise multiplier of each of `releases` equal releases that are together (epsilon, delta)-private,
    relative to the contribution of one record; 0 at infinite `epsilon`, None if the accountant has no bound. `epsilon`
    > 0; `delta` 0..1, exclusive; `releases` >= 1; `rate` as in `events.MechanismEvent`."""
    if math.isinf(epsilon):
        return 0.0
    if mechanism == "gaussian" and rate == 1 and accountant in ("exact", "rdp"):
        one = analytic_multiplier(epsilon, delta)
        if accountant == "rdp":  # which never needs less than the analytic calibration
            one = smallest_sufficient(
                lambda z: float(epsilon_of_curves(gaussian_curve(squared_mu_of(z)), delta)[0]) - epsilon, one
            )
        return (2.0 if neighbours == "replace" else 1.0) * math.sqrt(releases) * one

    def spent(multiplier: float) -> float | None:
        return epsilon_by(accountant, [MechanismEvent(mechanism, multiplier, releases, rate)], delta, neighbours)

    if spent(1.0) is None:
        return None

    def missing(multiplier: float) -> float:
        found = spent(multiplier)
        assert found is not None
        return math.log(min(max(found, math.exp(-_FAR)), math.exp(_FAR))) - math.log(epsilon)

    if rate < 1 and accountant == "exact":
        # Another accountant gives a sufficient multiplier, up to rounding; each evaluation takes a second.
        other: Accountant = "rdp" if neighbours == "add_remove" else "basic"
        enough = multiplier_for(epsilon, delta, "gaussian", releases, rate, neighbours, other)
        assert enough is not None
        return smallest_sufficient(missing, enough * (1 + 1e-6), precision=1e-6)
    return smallest_sufficient(missing, precision=_PRECISION, least=_LEAST)
