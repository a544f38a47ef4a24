"""How much noise keeps a number of releases within one budget, for Gaussian and for Laplace noise.

`naive_delta_split` gives each of R releases (epsilon/R, delta/R), as in `accounting.composition`. `advanced` gives each
the epsilon_0 that solves

    sqrt(2 R ln(1/delta')) epsilon_0 + R epsilon_0 (e^epsilon_0 - 1) = epsilon

where the slack delta' is half of delta if the mechanism needs the other half (Gaussian), else all of it (Dwork,
Rothblum, Vadhan 2010). `analytic` asks for the least noise for which all releases together are private enough: exact
for Gaussian noise, by privacy loss distributions for Laplace noise. `rdp` does the same by Renyi accounting, which is a
little wasteful.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from asyncfl.privacy.accounting.calibrate import multiplier_for
from asyncfl.privacy.accounting.composition import advanced_share, noise_multiplier
from asyncfl.privacy.accounting.gaussian import analytic_multiplier, classical_constant, classical_limit

Sharing = Literal["naive_delta_split", "advanced", "analytic", "rdp"]
Calibration = Literal["classical", "analytic"]


@dataclass(frozen=True, slots=True)
class ClassicalRelease:
    """One release whose noise is calibrated by sigma = constant c1 sensitivity/epsilon, for a budget of its own."""

    epsilon: float
    delta: float
    constant: float = 1.0

    @property
    def limit(self) -> float:
        """Largest epsilon up to which that is enough noise, see `classical_limit`."""
        return classical_limit(self.delta, self.constant)

    @property
    def past_its_limit(self) -> bool:
        """Whether it gives away more than its budget."""
        return self.epsilon > self.limit


def share(epsilon: float, delta: float, releases: int, composition: Sharing, pure: bool) -> tuple[float, float]:
    """(epsilon_0, delta_0) of one release, where each has a budget. `pure`: the mechanism needs no delta itself."""
    if composition == "naive_delta_split":
        return epsilon / releases, 0.0 if pure else delta / releases
    slack = delta if pure else delta / 2
    return advanced_share(epsilon, slack, releases), 0.0 if pure else slack / releases


def gaussian_multiplier(
    epsilon: float, delta: float, releases: int, calibration: Calibration, composition: Sharing
) -> float:
    """Standard deviation over L2 sensitivity of each of `releases`; 0 at infinite `epsilon`.

    `calibration` decides how one release is calibrated under `naive_delta_split` and `advanced`; the other two have no
    single releases and take no notice of it.
    """
    if math.isinf(epsilon):
        return 0.0
    if composition == "analytic" or composition == "rdp":
        return noise_multiplier(releases, epsilon, delta, composition=composition)
    epsilon_0, delta_0 = share(epsilon, delta, releases, composition, pure=False)
    if calibration == "classical":
        return classical_constant(delta_0) / epsilon_0
    return analytic_multiplier(epsilon_0, delta_0)


def laplace_multiplier(epsilon: float, delta: float, releases: int, composition: Sharing) -> float:
    """Scale over L1 sensitivity of each of `releases`; 0 at infinite `epsilon`. An even split needs no `delta`."""
    if math.isinf(epsilon):
        return 0.0
    if composition in ("naive_delta_split", "advanced"):
        return 1 / share(epsilon, delta, releases, composition, pure=True)[0]
    accountant: Literal["exact", "rdp"] = "exact" if composition == "analytic" else "rdp"
    found = multiplier_for(epsilon, delta, "laplace", releases, accountant=accountant)
    if found is None:
        raise ValueError(f"{accountant} accounting knows no bound for Laplace noise")
    return found
