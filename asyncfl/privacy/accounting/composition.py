"""Noise multiplier that keeps several releases of the same data within one budget.

`naive` is the source's theorem 1: sigma grows linearly with the number of releases. It is the default because the
paper's figures were drawn with it. Strictly it gives (epsilon, releases x delta), since each release spends delta. The
other rules are not the default for the reasons given:

- `naive_delta_split` spends delta/releases on each release, which repairs that; the paper's numbers differ.
- `advanced` gives each release its share by advanced composition (`advanced_share`), with half of delta as slack and
  the other half shared; the paper does not use it, and for few releases or a large epsilon it needs more noise than the
  naive rule.
- `analytic` is exact: z = sqrt(releases) times the analytic multiplier; it needs far less noise than the paper adds, so
  it shows what NbAFL could reach instead of what it does.
- `rdp` calibrates by Renyi accounting; for the same reason, and it needs slightly more noise than `analytic`.

For Laplace noise (`laplace_multiplier`) an even split needs no delta, the slack of `advanced` is all of delta, and
`analytic` uses privacy loss distributions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from asyncfl.privacy.accounting.calibrate import multiplier_for
from asyncfl.privacy.accounting.gaussian import analytic_multiplier, classical_constant, classical_limit
from asyncfl.privacy.accounting.renyi import rdp_multiplier
from asyncfl.privacy.accounting.roots import smallest_sufficient

Composition = Literal["naive", "naive_delta_split", "advanced", "analytic", "rdp"]
Sharing = Literal["naive_delta_split", "advanced", "analytic", "rdp"]
Calibration = Literal["classical", "analytic"]

WITH_C1: tuple[Composition, ...] = ("naive", "naive_delta_split", "advanced")
"""Compositions that calibrate each release classically."""

_LARGEST_EXPONENT = 700.0  # a larger share exceeds every budget


@dataclass(frozen=True, slots=True)
class ClassicalRelease:
    """One release with noise sigma = constant c1 sensitivity/epsilon for a budget of its own."""

    epsilon: float
    delta: float
    constant: float = 1.0

    @property
    def limit(self) -> float:
        """Largest epsilon for which that noise is enough, see `classical_limit`."""
        return classical_limit(self.delta, self.constant)

    @property
    def past_its_limit(self) -> bool:
        """Whether the release exceeds its budget."""
        return self.epsilon > self.limit

    def notes(self, which: str = "") -> list[str]:
        """Return sentences for readers of the results; none within the limit. `which`: description of the releases."""
        if not self.past_its_limit:
            return []
        constant = "" if self.constant == 1 else f" and constant {self.constant:g}"
        return [
            f"the classical calibration holds up to epsilon {self.limit:.4g} for delta {self.delta:.4g}{constant}; "
            f"{which or f'one release at {self.epsilon:.4g}'} exceeds its claim, see the ledger"
        ]


@lru_cache(maxsize=1024)
def advanced_share(epsilon: float, slack: float, releases: int) -> float:
    """Return epsilon_0 of each of `releases` by advanced composition with `slack` (0..1, exclusive).

    It solves sqrt(2 releases ln(1/slack)) epsilon_0 + releases epsilon_0 (e^epsilon_0 - 1) = epsilon (Dwork, Rothblum,
    Vadhan 2010).
    """
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
    """Return one of `releases` (>= 1) that share a budget by a composition with a c1, with its own epsilon and delta.

    The limit of the classical calibration applies to this share, not to the whole budget.
    """
    if composition == "advanced":
        slack = delta / 2
        return ClassicalRelease(advanced_share(epsilon, slack, releases), slack / releases, constant)
    own_delta = delta / releases if composition == "naive_delta_split" else delta
    return ClassicalRelease(epsilon / releases, own_delta, constant)


def noise_multiplier(
    releases: int, epsilon: float, delta: float, constant: float = 1.0, composition: Composition = "naive"
) -> float:
    """Return the standard deviation over L2 sensitivity of each of `releases` releases; 0 for none and for infinite
    epsilon.

    `epsilon` > 0 and `delta` (0..1, exclusive) are the budget of all releases together. `constant` multiplies c1 in the
    naive rules and in `advanced`; the other two rules have no c1 and ignore it. Source: NbAFL, definition 2 and theorem
    1.
    """
    if releases == 0 or math.isinf(epsilon):
        return 0.0
    if composition == "analytic":
        return math.sqrt(releases) * analytic_multiplier(epsilon, delta)
    if composition == "rdp":
        return math.sqrt(releases) * rdp_multiplier(epsilon, delta)
    one = classical_share(releases, epsilon, delta, composition)
    factor = constant * classical_constant(one.delta)
    return factor / one.epsilon if composition == "advanced" else factor * releases / epsilon


def gaussian_multiplier(
    epsilon: float, delta: float, releases: int, calibration: Calibration, composition: Sharing
) -> float:
    """Return the standard deviation over L2 sensitivity of each of `releases`; 0 at infinite `epsilon`.

    `calibration`: rule for one release under `naive_delta_split` and `advanced`; the other two compositions calibrate
    all releases together and ignore it.
    """
    if math.isinf(epsilon):
        return 0.0
    if composition == "analytic" or composition == "rdp":
        return noise_multiplier(releases, epsilon, delta, composition=composition)
    one = classical_share(releases, epsilon, delta, composition)
    if calibration == "classical":
        return classical_constant(one.delta) / one.epsilon
    return analytic_multiplier(one.epsilon, one.delta)


def laplace_multiplier(epsilon: float, delta: float, releases: int, composition: Sharing) -> float:
    """Return the scale over L1 sensitivity of each of `releases`; 0 at infinite `epsilon`. An even split needs no
    `delta`."""
    if math.isinf(epsilon):
        return 0.0
    if composition == "naive_delta_split":
        return 1 / (epsilon / releases)
    if composition == "advanced":
        return 1 / advanced_share(epsilon, delta, releases)
    accountant: Literal["exact", "rdp"] = "exact" if composition == "analytic" else "rdp"
    found = multiplier_for(epsilon, delta, "laplace", releases, accountant=accountant)
    if found is None:
        raise ValueError(f"{accountant} accounting knows no bound for Laplace noise")
    return found
