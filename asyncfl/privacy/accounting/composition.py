"""Noise multiplier that keeps several releases of the same data within one budget.

`naive` is the source's theorem 1: sigma grows linearly with the number of releases. It is the default because
the paper's figures were drawn with it. Read strictly it gives (epsilon, releases x delta), since each release
spends delta.

- `naive_delta_split` spends delta/releases on each, which repairs that; not the default: the paper's numbers
  differ.
- `advanced` gives each release what advanced composition leaves it (`advanced_share`), half of delta being its slack
  and the other half shared out; not the default: the paper does not know it, and for few releases or a large epsilon
  it needs more noise than the naive rule.
- `analytic` is exact: z = sqrt(releases) times the analytic multiplier; not the default: it needs far less
  noise than the paper adds, so it answers what NbAFL could reach, not what it does.
- `rdp` calibrates by Renyi accounting; not the default for the same reason, and slightly wasteful against
  `analytic`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from asyncfl.privacy.accounting.gaussian import analytic_multiplier, classical_constant
from asyncfl.privacy.accounting.renyi import rdp_multiplier
from asyncfl.privacy.accounting.roots import just_enough

Composition = Literal["naive", "naive_delta_split", "advanced", "analytic", "rdp"]

WITH_C1: tuple[Composition, ...] = ("naive", "naive_delta_split", "advanced")
"""Those that calibrate each release classically."""

_LARGEST_EXPONENT = 700.0  # more would cost more than any budget


class Share(NamedTuple):
    """The budget of one release: an epsilon and the probability with which it may be broken."""

    epsilon: float
    delta: float


@lru_cache(maxsize=1024)
def advanced_share(epsilon: float, slack: float, releases: int) -> float:
    """epsilon_0 of each of `releases` by advanced composition, `slack` (0..1, exclusive) left over for it.

    It solves sqrt(2 releases ln(1/slack)) epsilon_0 + releases epsilon_0 (e^epsilon_0 - 1) = epsilon (Dwork, Rothblum,
    Vadhan 2010).
    """
    factor, most = math.log(-2 * releases * math.log(slack)) / 2, min(epsilon, _LARGEST_EXPONENT)

    def missing(inverse: float) -> float:
        share = 1 / inverse
        # In logarithms: e to a large share is no float.
        grown = math.log(releases) + share + math.log(-math.expm1(-share))
        return float(np.logaddexp(factor, grown)) + math.log(share) - math.log(epsilon)

    return most if missing(1 / most) <= 0 else 1 / just_enough(missing, 1 / most)


def classical_share(releases: int, epsilon: float, delta: float, composition: Composition = "naive") -> Share:
    """The budget that one of `releases` (>= 1) is calibrated for by a composition with a c1.

    It is this one, and not the whole budget, that the classical calibration must hold for (`classical_limit`).
    """
    if composition == "advanced":
        return Share(advanced_share(epsilon, delta / 2, releases), delta / 2 / releases)
    return Share(epsilon / releases, delta / releases if composition == "naive_delta_split" else delta)


def noise_multiplier(
    releases: int, epsilon: float, delta: float, constant: float = 1.0, composition: Composition = "naive"
) -> float:
    """Standard deviation over L2 sensitivity of each of `releases` releases; 0 for none and for infinite epsilon.

    `epsilon` > 0 and `delta` (0..1, exclusive) are the budget of all releases together. `constant` multiplies
    c1 in the naive rules and in `advanced`; the other two have no c1 and take no notice of it. Source: NbAFL,
    definition 2 and theorem 1.
    """
    if releases == 0 or math.isinf(epsilon):
        return 0.0
    if composition == "naive":
        return constant * classical_constant(delta) * releases / epsilon
    if composition == "naive_delta_split":
        return constant * classical_constant(delta / releases) * releases / epsilon
    if composition == "advanced":
        share = advanced_share(epsilon, delta / 2, releases)
        return constant * classical_constant(delta / 2 / releases) / share
    if composition == "analytic":
        return math.sqrt(releases) * analytic_multiplier(epsilon, delta)
    return math.sqrt(releases) * rdp_multiplier(epsilon, delta)
