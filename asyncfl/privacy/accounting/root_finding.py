"""Root of a function of one variable in an interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress


def brent_root(
    function: Callable[[float], float], low: float, high: float, absolute: float, relative: float, most: int = 500
) -> float:
    """Return a root of `function` between `low` and `high`, where its signs differ, by Brent's method.

    The root is within `absolute + relative * |root|`. Source: Brent 1973, "Algorithms for minimization without
    derivatives", chapter 4, with the hyperbolic extrapolation of Bus, Dekker 1975. The operations are those of
    `scipy.optimize.brentq`, in its order, so that the results have the same bits; importing that takes longer than a
    short run.

    Raises ValueError where the signs are equal, RuntimeError after `most` steps.
    """
    x_before, x = low, high
    f_before, f = function(x_before), function(x)
    if f_before == 0:
        return x_before
    if f == 0:
        return x
    if _same_sign(f_before, f):
        raise ValueError("the function must have different signs at both ends")
    x_other = f_other = step_before = step = 0.0
    for _ in range(most):
        if f_before != 0 and f != 0 and not _same_sign(f_before, f):
            # The root is between the last two points.
            x_other, f_other = x_before, f_before
            step_before = step = x - x_before
        if abs(f_other) < abs(f):
            x_before, x, x_other = x, x_other, x
            f_before, f, f_other = f, f_other, f
        tolerance = (absolute + relative * abs(x)) / 2
        half = (x_other - x) / 2
        if f == 0 or abs(half) < tolerance:
            return x
        tried = math.inf
        if abs(step_before) > tolerance and abs(f) < abs(f_before):
            with suppress(ZeroDivisionError):  # an interval that is halved instead
                if x_before == x_other:
                    tried = -f * (x - x_before) / (f - f_before)
                else:
                    slope = (f_before - f) / (x_before - x)
                    other_slope = (f_other - f) / (x_other - x)
                    numerator = -f * (f_other * other_slope - f_before * slope)
                    tried = numerator / (other_slope * slope * (f_other - f_before))
        if 2 * abs(tried) < min(abs(step_before), 3 * abs(half) - tolerance):
            step_before, step = step, tried
        else:
            step_before = step = half
        x_before, f_before = x, f
        x += step if abs(step) > tolerance else tolerance if half > 0 else -tolerance
        f = function(x)
    raise RuntimeError(f"no root was found within {most} steps")


def _same_sign(one: float, other: float) -> bool:
    return math.copysign(1, one) == math.copysign(1, other)
