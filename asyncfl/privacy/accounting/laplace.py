"""Composition of many equal Laplace releases: their privacy loss distribution, composed by Fourier transform.

The loss of one release with epsilon_0 = sensitivity/b lies in -epsilon_0..epsilon_0, and its curve is

    delta(epsilon) = 1 - e^((epsilon - epsilon_0)/2)      for |epsilon| < epsilon_0

On a grid, the distribution whose curve interpolates this one is the closest that is nowhere better (Doroshenko, Ghazi,
Kamath, Kumar, Manurangsi 2022), so the result is a close upper bound. One transform serves all numbers of releases,
because a client's ledger needs hundreds of them.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_LARGEST = 2**15  # points of the grid
_LOSS_STEP = 1e-3  # a finer grid changes no printed digit
_TAIL = 1e-6  # share of delta that is set aside for losses outside the grid
_LARGEST_EXPONENT = 700.0  # e to that is a float; where epsilon is so large that steps are wider, nothing is left of it
_REACH = 60.0  # a loss this much above epsilon counts in full


def laplace_epsilons(counts: ArrayLike, multiplier: float, delta: float) -> Floats:
    """Compute (n,) smallest epsilons of Laplace releases with `multiplier` = b over the L1 sensitivity, > 0.

    `counts`: (n,) numbers of releases >= 0; `delta` 0..1, exclusive. Equal counts are computed once.
    """
    numbers = np.asarray(counts, dtype=np.int64)
    unique, where = np.unique(numbers, return_inverse=True)
    found = np.array([_epsilon(int(number), _grid_for(int(number)), 1 / multiplier, delta) for number in unique])
    return found.reshape(unique.shape)[where.reshape(numbers.shape)]


def _grid_for(count: int) -> int:
    # Rounded up, so that neighbouring counts share a transform.
    return 1 << max(count - 1, 0).bit_length()


def _half_width(count: int, epsilon_0: float, delta: float) -> float:
    """Return the distance from the mean beyond which the sum of `count` losses lies with probability at most `_TAIL`
    delta."""
    # Hoeffding; and no further than the losses can add up to.
    spread = epsilon_0 * math.sqrt(2 * count * math.log(2 / (_TAIL * delta)))
    return min(spread, 2 * count * epsilon_0)


@lru_cache(maxsize=32)
def _transform(largest: int, epsilon_0: float, delta: float) -> tuple[NDArray[np.complex128], int, float, float]:
    """Return the transform of one loss on a grid for `largest` of them, the grid's size and step, and the mean loss."""
    width = 2 * _half_width(largest, epsilon_0, delta) + 4 * epsilon_0
    steps = math.ceil(epsilon_0 / max(_LOSS_STEP, 1.1 * width / _LARGEST))
    step = epsilon_0 / steps
    points = 1 << math.ceil(math.log2(width / step + 2))
    at = np.arange(-steps, steps + 1) * step
    curve = -np.expm1((at - epsilon_0) / 2)
    rises = np.diff(curve)
    mass = np.zeros(len(at))
    mass[:-1] += rises / math.expm1(min(step, _LARGEST_EXPONENT))
    mass[1:] -= rises / -math.expm1(-step)
    mass[0] += math.exp(-epsilon_0)
    on_circle = np.zeros(points)
    np.add.at(on_circle, np.arange(-steps, steps + 1) % points, mass)
    return np.fft.rfft(on_circle), points, step, float(mass @ at)


def _epsilon(count: int, largest: int, epsilon_0: float, delta: float) -> float:
    if count == 0:
        return 0.0
    if count == 1:
        return max(epsilon_0 + 2 * math.log1p(-delta), 0.0)
    transform, points, step, mean = _transform(largest, epsilon_0, delta)
    mass = np.fft.irfft(transform**count, points)
    middle = round(count * mean / step)
    places = np.arange(middle - points // 2, middle - points // 2 + points)
    inside = np.abs(places) * step <= count * epsilon_0 * (1 + 1e-12)
    probability: Floats = np.maximum(mass[places[inside] % points], 0.0)
    loss = places[inside] * step
    return epsilon_of_losses(loss, probability, delta * (1 - _TAIL))


def epsilon_of_losses(loss: NDArray[np.floating], probability: NDArray[np.floating], delta: float) -> float:
    """Return the smallest epsilon >= 0 at which sum p (1 - e^(epsilon - loss)) over larger losses is at most `delta`.

    `loss`: (n,) increasing; `probability`: (n,) >= 0.
    """
    above = np.cumsum(probability[::-1])[::-1]
    quantile = int(np.searchsorted(-above, -delta))  # first place with no more than delta on it and above
    if quantile == 0:
        return 0.0
    # At the loss before that little enough lies beyond, so epsilon is no larger.
    reference = loss[quantile - 1]
    near = int(np.searchsorted(loss, reference - _REACH))
    weighed = np.cumsum((probability[near:] * np.exp(reference - loss[near:]))[::-1])[::-1]
    # On each place and above; the last one's neighbour is needed too.
    mass, weighed = np.append(above[near:], 0.0), np.append(weighed, 0.0)
    at = loss[near:quantile]
    beyond = mass[1:][: len(at)] - np.exp(at - reference) * weighed[1:][: len(at)]
    place = int(np.argmax(beyond <= delta))  # epsilon lies below this loss, and above the one before it
    return max(float(reference) + math.log((mass[place] - delta) / weighed[place]), 0.0)
