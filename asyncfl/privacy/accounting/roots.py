"""How much is just enough: where a function that never rises comes down to 0, by Brent's method."""

from __future__ import annotations

from collections.abc import Callable


def smallest_sufficient(
    missing: Callable[[float], float], start: float = 1.0, precision: float = 1e-15, least: float = 1e-300
) -> float:
    """Smallest number > 0 that is enough, to a relative `precision` (1e-15 or more) and never too little.

    `missing`: what is missing at a number, > 0 or not; it never rises, and comes down to 0 somewhere. `start` > 0:
    where it is looked for first, doubling and halving. Where less than `least` is enough, some number below that.
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
