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

import numpy as np

from asyncfl.base.messages import Bools, Floats, Ints


def deviation_bound(variance: Floats, level: Floats | float, rho: Floats | float) -> Floats:
    """Return the deviation below its mean, >= 0, that a noisy sum exceeds at any time with probability at most `level`.
    `variance`: V. `level`: a. The bound is tightest for V of about `rho`, and 0 where `rho` is 0."""
    positive = np.asarray(rho) > 0
    rho = np.where(positive, rho, np.nan)
    total = variance + rho
    return np.where(positive, np.sqrt(total * np.log(total / (rho * np.square(level)))), 0.0)


def is_below_bound(
    values: Floats,
    variances: Floats,
    level: float,
    first: Ints | int = 1,
    known_variances: Floats | None = None,
    seen: Bools | None = None,
) -> Bools:
    """Return whether the sum of `values` (..., n) from any position to the end is significantly negative, (...) bool.

    One row holds the values of one client, the newest last. If their means are at least 0, the result is True at any
    time of the run with probability at most `level`. `variances`: (..., n) variance of the noise in each value.
    `first`: (...) running number (1, 2, ...) of the client's first value in the row; below 1 only where that value is
    not `seen`. `known_variances`: (..., n) variances that were known before each value arrived, from which the first
    rho follows; entries of 0, and None, stand for `variances`. `seen`: (..., n) whether each value exists, the others
    and their variances being 0; None: all exist.
    """
    exists = np.ones(values.shape, dtype=bool) if seen is None else seen
    starts = np.maximum(np.asarray(first)[..., None] + np.arange(values.shape[-1]), 1)
    levels = level / (starts * (starts + 1.0))
    total = _suffix_sums(variances)
    at_start = variances if known_variances is None else np.where(known_variances > 0, known_variances, variances)
    bound = np.maximum(
        deviation_bound(total, levels, 4 * at_start), deviation_bound(total, levels, 4 * _median(variances, exists))
    )
    return np.asarray(((_suffix_sums(values) < -bound) & exists).any(axis=-1))


def _suffix_sums(values: Floats) -> Floats:
    """Return the sum of `values` (..., n) from each position to the end."""
    return np.cumsum(values[..., ::-1], axis=-1)[..., ::-1]


def _median(values: Floats, marked: Bools) -> Floats:
    """Return the median (..., 1) of those entries of `values` (..., n) that are `marked`; 0 if there are none."""
    number = marked.sum(axis=-1)[..., None]
    ranked = np.sort(np.where(marked, values, np.inf), axis=-1)
    low, high = (np.take_along_axis(ranked, np.maximum(at, 0), axis=-1) for at in ((number - 1) // 2, number // 2))
    return np.where(number > 0, (low + high) / 2, 0.0)
