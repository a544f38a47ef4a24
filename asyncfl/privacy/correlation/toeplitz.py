"""Coefficients of lower-triangular Toeplitz matrices C for private prefix sums, and what they cost.

Notation: T steps, A the (T, T) matrix of prefix sums, C of c_0 = 1, c_1, ..., c_(b-1) on and below its diagonal (b
bands). Published are the prefix sums of C^-1 (C g + z), so that the noise of all T of them has the squared error
|A C^-1|^2 (Frobenius norm), and one participation moves C g by a column of C.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from asyncfl.base.arrays import Floats


def square_root_coefficients(bands: int) -> Floats:
    """Return the (bands,) first coefficients of 1/sqrt(1 - x): 1, 1/2, 3/8, 5/16, ...

    The matrix with all of them is the square root of A (Fichtenberger, Henzinger, Upadhyay 2023); cut off after b bands
    it is the banded square root of Kalinin and Lampert 2024. A closed form, near the best error and not the best.
    """
    k = np.arange(1, bands)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


@lru_cache(maxsize=64)
def _optimal(bands: int, steps: int) -> tuple[float, ...]:
    from scipy.optimize import minimize

    def log_cost(below: Floats) -> tuple[float, Floats]:
        c = np.concatenate([[1.0], below])
        inverse = inverse_coefficients(c, steps)
        sums = np.cumsum(inverse)
        left = np.arange(steps, 0, -1.0)
        error, squares = float(left @ sums**2), float(c @ c)
        # C^-1 changes by -C^-1 dC C^-1: the sums change by those of the inverse's square, shifted.
        change = np.cumsum(_product(inverse, inverse))
        weighed = left * sums
        of_error = np.array([-2 * float(weighed[j:] @ change[: steps - j]) for j in range(1, len(c))])
        return math.log(error) + math.log(squares), of_error / error + 2 * below / squares

    start = square_root_coefficients(bands)[1:]
    found = minimize(log_cost, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "ftol": 1e-15})
    return (1.0, *found.x.tolist())


def optimal_coefficients(bands: int, steps: int) -> Floats:
    """Return the coefficients (min(bands, steps),) of least |A C^-1|^2 |C e_1|^2: mean squared error of the prefix sums
    at equal privacy of one participation.

    Found by a quasi-Newton method from the square root's coefficients; with participations at least `bands` steps apart
    they are the best also for several (Choquette-Choo et al. 2023, "(Amplified) Banded Matrix Factorization", for
    Toeplitz matrices).
    """
    bands = min(bands, steps)
    return np.ones(1) if bands == 1 else np.array(_optimal(bands, steps))


def _product(first: Floats, second: Floats) -> Floats:
    """Return the coefficients (n,) of the product of two Toeplitz matrices with (n,) coefficients."""
    from scipy.signal import fftconvolve

    return np.asarray(fftconvolve(first, second)[: len(first)])


def inverse_coefficients(coefficients: Floats, steps: int) -> Floats:
    """Return the (steps,) coefficients of C^-1."""
    from scipy.signal import lfilter

    return np.asarray(lfilter([1.0], coefficients, np.eye(1, steps)[0]))


def sum_error(coefficients: Floats, steps: int) -> float:
    """Return |A C^-1|^2 / T: the mean squared error of the prefix sums per unit of noise."""
    sums = np.cumsum(inverse_coefficients(coefficients, steps))
    return float(np.arange(steps, 0, -1.0) @ sums**2) / steps


def is_decreasing(coefficients: Floats) -> bool:
    """Whether no coefficient is negative or larger than the one before."""
    return bool((coefficients >= 0).all() and (np.diff(coefficients) <= 0).all())


def sensitivity(coefficients: Floats, steps: int, participations: int, separation: int) -> float:
    """Return the largest |C x| over all x with at most `participations` entries of -1..1, at least `separation` apart,
    and zeros elsewhere.

    For coefficients that are not negative and do not increase, the worst pattern begins at the first step and repeats
    every `separation` steps, with equal signs (Kalinin and Lampert 2024, theorem 2). Raises ValueError for others.
    """
    if not is_decreasing(coefficients):
        raise ValueError("the coefficients must not be negative and not increase")
    total = np.zeros(steps)
    for start in range(0, min(participations * separation, steps), separation):
        column = coefficients[: steps - start]
        total[start : start + len(column)] += column
    return float(np.linalg.norm(total))
