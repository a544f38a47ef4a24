"""Noise multiplier that keeps several releases of the same data within one budget.

`naive` is the source's theorem 1: sigma grows linearly with the number of releases. It is the default because
the paper's figures were drawn with it. Read strictly it gives (epsilon, releases x delta), since each release
spends delta.

- `naive_delta_split` spends delta/releases on each, which repairs that; not the default: the paper's numbers
  differ.
- `analytic` is exact: z = sqrt(releases) times the analytic multiplier; not the default: it needs far less
  noise than the paper adds, so it answers what NbAFL could reach, not what it does.
- `rdp` calibrates by Renyi accounting; not the default for the same reason, and slightly wasteful against
  `analytic`.
"""

from __future__ import annotations

import math
from typing import Literal

from asyncfl.privacy.gaussian import analytic_multiplier, classical_constant, rdp_multiplier

Composition = Literal["naive", "naive_delta_split", "analytic", "rdp"]


def noise_multiplier(
    releases: int, epsilon: float, delta: float, constant: float = 1.0, composition: Composition = "naive"
) -> float:
    """Standard deviation over L2 sensitivity of each of `releases` releases; 0 for none and for infinite epsilon.

    `epsilon` > 0 and `delta` (0..1, exclusive) are the budget of all releases together. `constant` multiplies
    c1 in the two naive rules; the other two have no c1 and take no notice of it. Source: NbAFL, definition 2
    and theorem 1.
    """
    if releases == 0 or math.isinf(epsilon):
        return 0.0
    if composition == "naive":
        return constant * classical_constant(delta) * releases / epsilon
    if composition == "naive_delta_split":
        return constant * classical_constant(delta / releases) * releases / epsilon
    if composition == "analytic":
        return math.sqrt(releases) * analytic_multiplier(epsilon, delta)
    return math.sqrt(releases) * rdp_multiplier(epsilon, delta)
