"""Find the root of a non-increasing function by Brent's method."""

from __future__ import annotations

from collections.abc import Callable


def smallest_sufficient(
    missing: Callable[[float], float], start: float = 1.0, precision: float = 1e-15, least: float = 1e-300
) -> float:
    """Return the smallest x > 0 with `missing(x)` <= 0, to a relative `precision` (1e-15 or more) and never below it.

    `missing`: a non-increasing function with a root. `start` > 0: where the search begins, by doubling and halving. If
    some x below `least` is sufficient, such an x is returned.
    """
    from scipy.optimize import brentq

    low = high = start
    while missing(high) > 0:
        low, high = high, high * 2
    while low == high or missing(low) <= 0:
        if low < least:
            return low
        low, high = low / 2, low
    found = float(brentq(missing, low, high, xtol=precision * low, rtol=precision, maxiter=500))
    # The method ends on either side.
    step = precision
    while missing(found) > 0:
        found, step = min(found * (1 + step), high), 2 * step
    return found
