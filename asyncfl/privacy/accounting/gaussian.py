"""The Gaussian mechanism: the epsilon of a noise multiplier, and the multiplier for an epsilon.

A noise multiplier z is the noise's standard deviation over the L2 sensitivity. Releases with multipliers z_1, z_2, ...
of the same data are together exactly as private as one release with mu^2 = sum 1/z_i^2 (Dong, Roth, Su 2019), and

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

is exact (Balle, Wang 2018, equation 6). The classical calibration z = sqrt(2 ln(1.25/delta))/epsilon is proven only for
epsilon < 1. It holds somewhat beyond (`classical_limit`) and then fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncfl.privacy.accounting.root_finding import brent_root

Floats = NDArray[np.float64]


def smallest_sufficient(
    missing: Callable[[float], float], start: float = 1.0, precision: float = 1e-15, least: float = 1e-300
) -> float:
    """Return the smallest x > 0 with `missing(x)` <= 0, to a relative `precision` (1e-15 or more) and never below it.

    `missing` is non-increasing with a root. The search begins at `start` > 0, by doubling and halving, and ends at an x
    below `least` if that is sufficient.
    """
    low = high = start
    while missing(high) > 0:
        low, high = high, high * 2
    while low == high or missing(low) <= 0:
        if low < least:
            return low
        low, high = low / 2, low
    found = brent_root(missing, low, high, precision * low, precision)
    # The method ends on either side.
    step = precision
    while missing(found) > 0:
        found, step = min(found * (1 + step), high), 2 * step
    return found


def classical_constant(delta: float) -> float:
    """Return c1 = sqrt(2 ln(1.25/delta)) of the classical calibration sigma = c1 sensitivity/epsilon (Dwork, Roth 2014,
    theorem A.1)."""
    return math.sqrt(2 * math.log(1.25 / delta))


def squared_mu_of(noise_multiplier: float, releases: float = 1) -> float:
    """Return sum z^-2 of equal releases of the same data; infinite without noise, 0 if nothing is revealed."""
    square = noise_multiplier * noise_multiplier
    return releases / square if square > 0 else math.inf if releases > 0 else 0.0


def log_delta(mu: Floats, epsilon: Floats) -> Floats:
    """Return ln delta of a Gaussian release at `epsilon` >= 0, exact, elementwise; `mu` > 0 is 1/z."""
    shift = epsilon / mu
    first = _log_ndtr(mu / 2 - shift)
    second = epsilon + _log_ndtr(-mu / 2 - shift)
    with np.errstate(divide="ignore"):
        # Rounding may lift the smaller term above the larger where both are nearly 0.
        result: Floats = first + np.log(-np.expm1(np.minimum(second - first, 0.0)))
    return result


def exact_epsilon(squared_mus: ArrayLike, delta: ArrayLike) -> Any:
    """Compute the exact smallest epsilon for which releases with these sums of z^-2 are (epsilon, delta)-private.

    `squared_mus`: float or array of any shape, >= 0 (`squared_mu_of`); `delta` 0..1, exclusive, one for all or one for
    each. Returns a float for two floats, otherwise a float64 array of their common shape.
    """
    entries, deltas = np.broadcast_arrays(
        np.asarray(squared_mus, dtype=np.float64), np.asarray(delta, dtype=np.float64)
    )
    # A complex number is a pair that numpy can sort.
    pairs, where = np.unique(entries.ravel() + 1j * deltas.ravel(), return_inverse=True)
    squares, targets = pairs.real, pairs.imag
    result = np.zeros(len(squares))
    result[np.isinf(squares)] = np.inf
    todo = np.isfinite(squares) & (squares > 0)
    if todo.any():
        result[todo] = _solve(np.sqrt(squares[todo]), np.log(targets[todo]))
    shaped = result[where].reshape(entries.shape)
    return float(shaped) if shaped.ndim == 0 else shaped


def _solve(mu: Floats, target: Floats) -> Floats:
    """Return (n,) epsilon at which ln delta equals `target`; 0 if it is below that already at 0."""
    # Zero-concentrated privacy gives an upper bound (Bun, Steinke 2016, proposition 1.3).
    epsilon = mu**2 / 2 + mu * np.sqrt(-2 * target)
    # Where delta alone is enough, epsilon is 0.
    epsilon[log_delta(mu, np.zeros_like(mu)) <= target] = 0.0
    low, high = np.zeros_like(mu), epsilon.copy()
    active = np.flatnonzero(epsilon > 0)
    # ln delta is concave in epsilon, so Newton's steps come down from the bound and never pass the root but by
    # rounding; then the bracket takes over.
    for _ in range(100):  # more than the bits of a float64, so halving always ends at its last digit or two
        if not len(active):
            break
        m, at, wanted = mu[active], epsilon[active], target[active]
        value = log_delta(m, at)
        above = value > wanted
        low[active], high[active] = np.where(above, at, low[active]), np.where(above, high[active], at)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            following = at + (value - wanted) / np.exp(at + _log_ndtr(-m / 2 - at / m) - value)
        inside = (following >= low[active]) & (following <= high[active])
        epsilon[active] = np.where(inside, following, (low[active] + high[active]) / 2)
        active = active[np.abs(epsilon[active] - at) > 1e-13 * at]
    return epsilon


def _log_ndtr(x: Floats) -> Floats:
    from scipy.special import log_ndtr

    result: Floats = log_ndtr(x)
    return result


@lru_cache(maxsize=1024)
def analytic_multiplier(epsilon: float, delta: float) -> float:
    """Return the smallest noise multiplier for which one release is (epsilon, delta)-private; 0 at infinite epsilon.

    `epsilon` > 0, `delta` 0..1, exclusive. Source: Balle, Wang 2018, the analytic Gaussian mechanism.
    """
    if math.isinf(epsilon):
        return 0.0
    target, budget = math.log(delta), np.array([epsilon])
    # The inverse of the bound in `_solve` is enough noise.
    enough = (math.sqrt(epsilon - target) + math.sqrt(-target)) / (math.sqrt(2) * epsilon)
    return smallest_sufficient(lambda z: float(log_delta(np.array([1 / z]), budget)[0]) - target, enough)


@lru_cache(maxsize=256)
def classical_limit(delta: float, constant: float = 1.0) -> float:
    """Return the largest epsilon for which one release with sigma = constant c1 sensitivity/epsilon is (epsilon,
    delta)-private; `delta` 0..1, exclusive; `constant` > 0."""
    factor, target = constant * classical_constant(delta), math.log(delta)

    def missing(inverse: float) -> float:
        epsilon = np.array([1 / inverse])
        return float(log_delta(epsilon / factor, epsilon)[0]) - target

    return 1 / smallest_sufficient(missing)
