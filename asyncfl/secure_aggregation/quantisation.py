"""Quantisation of updates to integers, and discrete Gaussian noise on these.

A number u of an update is clipped to +-range and rounded to a multiple of gamma = range/(2^(bits-1) - 1), at random up
or down so that the mean is u. For fixed random numbers the rounded vectors of two updates of d numbers lie at most

    |u - u'|_2 + gamma sqrt(d)

apart, since each pair of numbers moves apart by less than gamma; and a rounded vector is at most gamma sqrt(d) longer
than the update: the worst case of Kairouz, Liu, Steinke 2021, section 4, which also bounds the length with high
probability by rounding again where it is exceeded. Clients that clip to a norm C clip to C - gamma sqrt(d) first, so
that no rounded update is longer than C.

Noise is drawn from the discrete Gaussian N_Z(0, s^2), which has the same zero-concentrated privacy as the Gaussian
(Canonne, Kamath, Steinke 2020, theorem 4).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncfl.secure_aggregation.field import LARGEST, PRIME

Integers = NDArray[np.int64]


class Quantiser(NamedTuple):
    """Grid of `bits` bits per number over +-`range`."""

    bits: int
    range: float

    @property
    def levels(self) -> int:
        """Largest integer of a rounded number."""
        return int(2 ** (self.bits - 1)) - 1

    @property
    def step(self) -> float:
        """gamma: distance between two neighbouring numbers of the grid."""
        return self.range / self.levels

    def rounding_distance(self, n_parameters: int) -> float:
        """Return gamma sqrt(d), the most by which rounding lengthens a vector of d numbers or moves two apart (L2)."""
        return self.step * math.sqrt(n_parameters)

    def rounded(self, update: NDArray[np.floating], random: np.random.Generator) -> Integers:
        """Clip the finite numbers of `update` (d,) to the range and round them to the grid, without bias."""
        steps = np.clip(update.astype(np.float64), -self.range, self.range) / self.step
        # A clipped number may exceed the last level by a rounding error of the division.
        return np.clip(np.floor(steps + random.random(len(steps))), -self.levels, self.levels).astype(np.int64)

    def unchecked(self, update: NDArray[np.floating]) -> Integers:
        """Return the integers nearest to an attacker's `update` (d,), of any size, modulo the field; 0 for NaN.

        Nothing in secure aggregation checks a masked vector: an attacker may send any element of the field.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.rint(update.astype(np.float64) / self.step)
        steps = np.nan_to_num(steps, nan=0.0, posinf=float(LARGEST), neginf=-float(LARGEST))
        return np.fmod(steps, PRIME).astype(np.int64)

    def clipped(self, update: NDArray[np.floating]) -> int:
        """Return the count of numbers of `update` outside of the range."""
        return int(np.count_nonzero(np.abs(update) > self.range))


def discrete_gaussian(std: float, size: int, random: np.random.Generator) -> Integers:
    """Draw (size,) integers from the discrete Gaussian with density proportional to exp(-y^2/(2 std^2)).

    By rejection from a discrete Laplace distribution (Canonne, Kamath, Steinke 2020, algorithm 3), in floating-point
    numbers in place of exact fractions. `std`: > 0, in steps of the grid; the variance is at most std^2.
    """
    scale = math.floor(std) + 1
    found = np.empty(0, dtype=np.int64)
    while len(found) < size:
        number = 2 * (size - len(found)) + 16
        # The difference of two geometric variables is a discrete Laplace variable with P(y) ~ exp(-|y|/scale).
        success = -math.expm1(-1 / scale)
        drawn = random.geometric(success, number) - random.geometric(success, number)
        excess = np.abs(drawn) - std**2 / scale
        kept = random.random(number) < np.exp(-(excess**2) / (2 * std**2))
        found = np.concatenate([found, drawn[kept]])
    return found[:size].astype(np.int64)
