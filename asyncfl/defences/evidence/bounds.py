"""How far a sum may stray by chance, whenever one looks at it.

A client's test adds up x_1 + x_2 + ..., each x_k of mean at least 0 and with Gaussian noise of known variance v_k given
all that was before. exp(-l sum x - l^2 sum v / 2) is then a supermartingale for each l > 0, and so is its average over
l = |N(0, 1 / rho)|, which where sum x < 0 is at least

    sqrt(rho / (V + rho)) exp((sum x)^2 / (2 (V + rho))),      V = v_1 + ... + v_n.

By Ville's inequality therefore (Robbins 1970; with l of either sign Howard et al. 2021, equation 14)

    P(some n: sum x < -sqrt((V + rho) log((V + rho) / (rho a^2)))) <= a.

That holds at all times together, if rho is known before the first x: one may look after each update and stop when one
likes. To see clients that were honest first, a test is started at each of their updates, with a rho that follows from
that update's variance alone; the k-th may err with a / (k (k + 1)), all with a. A larger V than the true one only makes
it more cautious, and so does a second rho, of what is usual by now, whose bound must be passed as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def deviation_bound(variance: Floats, level: Floats | float, usual: Floats | float) -> Floats:
    """How far below its mean a sum of this `variance` ever comes, but with probability `level`.

    `usual`: variance at which the bound is tightest, rho; > 0 where any variance is. 0 where it is 0.
    """
    rho = np.where(np.asarray(usual) > 0, usual, np.nan)
    total = variance + rho
    return np.where(np.asarray(usual) > 0, np.sqrt(total * np.log(total / (rho * np.square(level)))), 0.0)


def suffix_sums(values: Floats) -> Floats:
    """Sums of the last n, n - 1, ..., 1 of `values` (..., n)."""
    return np.cumsum(values[..., ::-1], axis=-1)[..., ::-1]


def is_below_bound(
    values: Floats,
    variances: Floats,
    level: float,
    first: NDArray[np.int64] | int = 1,
    known: Floats | None = None,
    seen: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """(...) whether a sum of `values` (..., n) since one of them is lower than honest ones come, but with probability
    `level` for each row.

    `variances`: (..., n) of their noise. `first`: (...) running number of the first of them, 1 and up where it is seen.
    `known`: (..., n) variances as known before each came, where > 0; None: `variances`. `seen`: (..., n) which of them
    there are, values and variances of the others being 0; None: all.
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
    """(...) median of those of `values` (..., n) that are `there`; 0 where none are."""
    number = there.sum(axis=-1)[..., None]
    ranked = np.sort(np.where(there, values, np.inf), axis=-1)
    middle = [np.take_along_axis(ranked, np.maximum(place, 0), axis=-1) for place in ((number - 1) // 2, number // 2)]
    return np.asarray(np.where(number > 0, (middle[0] + middle[1]) / 2, 0.0)[..., 0])
