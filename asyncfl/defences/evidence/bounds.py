"""Time-uniform bounds on the deviation of a noisy sum below its mean.

A client's test adds up x_1 + x_2 + ..., where each x_k has a mean of at least 0 and Gaussian noise of known variance
v_k given the past. Then exp(-l sum x - l^2 sum v / 2) is a supermartingale for each l > 0, and so is its average over l
= |N(0, 1 / rho)|. Where sum x < 0, this average is at least

    sqrt(rho / (V + rho)) exp((sum x)^2 / (2 (V + rho))),      V = v_1 + ... + v_n.

By Ville's inequality therefore (Robbins 1970; with l of either sign Howard et al. 2021, equation 14)

    P(some n: sum x < -sqrt((V + rho) log((V + rho) / (rho a^2)))) <= a.

The bound holds at all times simultaneously if rho is fixed before the first x, so the sum may be checked after each
update. To detect clients that were honest at first, a test starts at each of their updates, with a rho that depends on
that update's variance only. The k-th test has error probability a / (k (k + 1)), all together a. Overestimating V makes
the test more cautious. So does the second rho, from the median variance so far, whose bound must be exceeded as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def deviation_bound(variance: Floats, level: Floats | float, usual: Floats | float) -> Floats:
    """Return how far below its mean a sum of this `variance` ever falls, except with probability `level`.

    `usual`: rho, the variance at which the bound is tightest, > 0 if any variance is. The bound is 0 where `usual` is
    0.
    """
    rho = np.where(np.asarray(usual) > 0, usual, np.nan)
    total = variance + rho
    return np.where(np.asarray(usual) > 0, np.sqrt(total * np.log(total / (rho * np.square(level)))), 0.0)


def suffix_sums(values: Floats) -> Floats:
    """Return the sums of the last n, n - 1, ..., 1 of `values` (..., n)."""
    return np.cumsum(values[..., ::-1], axis=-1)[..., ::-1]


def is_below_bound(
    values: Floats,
    variances: Floats,
    level: float,
    first: NDArray[np.int64] | int = 1,
    known: Floats | None = None,
    seen: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Return whether a sum of `values` (..., n) from some value on is below the bound for honest clients, (...) bool.

    The error probability is `level` for each row. `variances`: (..., n) of the noise. `first`: (...) running number of
    the first value, >= 1 if it is seen. `known`: (..., n) variances that were known before each value arrived, where >
    0; None: `variances`. `seen`: (..., n) which values exist, the others and their variances being 0; None: all.
    """
    if not values.shape[-1]:
        return np.zeros(values.shape[:-1], dtype=bool)
    there = np.ones(values.shape, dtype=bool) if seen is None else seen
    starts = np.maximum(np.asarray(first)[..., None] + np.arange(values.shape[-1]), 1)
    levels = level / (starts * (starts + 1.0))
    total, begun = suffix_sums(variances), variances if known is None else np.where(known > 0, known, variances)
    usual = _median(variances, there)[..., None]
    bound = np.maximum(deviation_bound(total, levels, 4 * begun), deviation_bound(total, levels, 4 * usual))
    return np.asarray(((suffix_sums(values) < -bound) & there).any(axis=-1))


def _median(values: Floats, there: NDArray[np.bool_]) -> Floats:
    """Return the median (...) of the entries of `values` (..., n) marked in `there`; 0 if none are."""
    number = there.sum(axis=-1)[..., None]
    ranked = np.sort(np.where(there, values, np.inf), axis=-1)
    middle = [np.take_along_axis(ranked, np.maximum(place, 0), axis=-1) for place in ((number - 1) // 2, number // 2)]
    return np.asarray(np.where(number > 0, (middle[0] + middle[1]) / 2, 0.0)[..., 0])
