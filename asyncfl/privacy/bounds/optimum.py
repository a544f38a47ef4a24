"""Best number of rounds or participants by a bound, as an integer and as a real number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_UNDEFINED = 1e150  # above any bound, and its square is a float


@dataclass(frozen=True, slots=True)
class Optimum:
    """Minimum of a bound."""

    best: int
    """Best integer."""
    bound: float
    """Value of the bound there."""
    real: float
    """Best real number near it."""
    interior: bool
    """Whether the best lies strictly inside the range in which the bound is defined."""


def optimum(bound: Callable[[NDArray[np.float64]], NDArray[np.float64]], largest: int) -> Optimum | None:
    """Find the minimum of a `bound` of one argument, rounds or participants, in 1..largest; None if it is undefined
    everywhere."""
    from scipy.optimize import minimize_scalar

    values = bound(np.arange(1.0, largest + 1))
    defined = np.flatnonzero(np.isfinite(values))
    if not defined.size:
        return None
    at = int(np.nanargmin(values))
    best, first, last = at + 1, int(defined[0]) + 1, int(defined[-1]) + 1

    def between(argument: float) -> float:
        value = float(bound(np.array(argument)))
        return value if np.isfinite(value) else _UNDEFINED

    around = max(best - 1, first), min(best + 1, last)
    if around[0] == around[1]:
        return Optimum(best, float(values[at]), float(best), first < best < last)
    real = float(minimize_scalar(between, bounds=around, method="bounded", options={"xatol": 1e-9 * best}).x)
    return Optimum(best, float(values[at]), real, first < best < last)
