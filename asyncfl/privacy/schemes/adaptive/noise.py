"""Noise of clients with budgets of their own, and what the server adds to reach a global threshold.

    sigma_i = c Delta/epsilon_i                                                 equations 9 to 12
    sigma_D = c Delta sqrt(max(0, epsilon_max^-2 - epsilon^-2))                 equations 15 to 18

c is a factor times c1 = sqrt(2 ln(1.25/delta)). The source leaves Delta open. Readings of it, for what is clipped to M:

- `2M/batch` (default): that of the mean of a batch of gradients, each of norm M at most, where one sample is replaced.
  It gives accuracies of the shape of the source's table 3. An update is no such mean, so it is heuristic.
- `2M`: holds for whatever is clipped to M, where all data of a client are replaced; not the default: 32 times the noise
  at a batch of 32, with which nothing is learnt at the source's budgets.
- `M`: holds where a client takes part or not; not the default for the same reason.
- `2M/n`, n the client's samples: that of one mean gradient over all its data, as NbAFL and SAFL have it; heuristic, and
  not the default: it leaves next to no noise.

epsilon is the `sum` of the budgets of a round (equation 15), or their `max`: where a sample lies with one client only,
the mean of the uploads says no more about it than that client's upload does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from asyncfl.privacy.accounting.composition import noise_multiplier

DeltaReading = Literal["2M/batch", "2M", "M", "2M/n"]
RoundBudget = Literal["sum", "max"]


def sensitivity_of(reading: DeltaReading, clip_norm: float, batch: int, samples: int) -> float:
    """Delta, L2, of what is clipped to `clip_norm` M. `batch`: samples per step; `samples`: of the client."""
    if reading == "M":
        return clip_norm
    if reading == "2M":
        return 2 * clip_norm
    return 2 * clip_norm / (batch if reading == "2M/batch" else samples)


def client_std(sensitivity: float, epsilon: float, delta: float, constant: float = 1.0) -> float:
    """sigma_i: standard deviation of the noise on each parameter; 0 at infinite epsilon. `constant`: factor on c1."""
    return sensitivity * noise_multiplier(1, epsilon, delta, constant)


def round_budget(epsilons: Sequence[float], rule: RoundBudget = "sum") -> float:
    """epsilon of one round from those of the uploads in it, at least one."""
    return math.fsum(epsilons) if rule == "sum" else max(epsilons)


def missing_std(sensitivity: float, threshold: float, epsilon: float, delta: float, constant: float = 1.0) -> float:
    """sigma_D: what the server adds to each parameter of the mean, once; 0 while `epsilon` is within `threshold`."""
    unit = sensitivity * noise_multiplier(1, 1.0, delta, constant)
    try:
        return unit * math.sqrt(max(0.0, threshold**-2 - epsilon**-2))
    except OverflowError:
        # Of a threshold so small the square is beyond the floats: what is there already is nothing beside it.
        return unit / threshold
