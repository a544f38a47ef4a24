"""Exact k-means in one dimension, and a test for more than one cluster.

In one dimension clusters are intervals of the sorted numbers. The best boundaries are found by dynamic programming over
the start of the last cluster, without starting points or local minima. The module `two_means` handles the case of two
clusters that SAFL needs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.two_means import lower_cluster


def k_means(numbers: NDArray[np.float64], clusters: int) -> NDArray[np.int64]:
    """Return the cluster of each number (n,), 0 the lowest, with the least sum of squares within clusters.

    `numbers`: (n,) finite. Equal numbers share a cluster; if there are fewer distinct numbers than `clusters`, each is
    a cluster.
    """
    values, which, counts = np.unique(np.asarray(numbers, dtype=np.float64), return_inverse=True, return_counts=True)
    n = len(values)
    if n <= clusters:
        return np.asarray(which, dtype=np.int64)
    centred = values - values.mean()
    ones, sums, squares = (np.concatenate([[0.0], np.cumsum(counts * centred**power)]) for power in (0, 1, 2))
    first, last = np.arange(n)[:, None], np.arange(1, n + 1)[None]
    size = np.maximum(ones[last] - ones[first], 1)
    within = (squares[last] - squares[first]) - (sums[last] - sums[first]) ** 2 / size
    # cost[i, j]: sum of squares of one cluster from value i to value j; infinite if j < i.
    cost = np.where(last > first, within, np.inf)
    least, begins = cost[0], []
    for _ in range(1, clusters):
        through = np.concatenate([[np.inf], least[:-1]])[:, None] + cost
        begins.append(np.argmin(through, axis=0))
        least = through.min(axis=0)
    label, end = np.zeros(n, dtype=np.int64), n - 1
    for number, begin in reversed(list(enumerate(begins, start=1))):
        label[begin[end] : end + 1] = number
        end = begin[end] - 1
    return label[which]


def has_clusters(numbers: NDArray[np.float64], random: np.random.Generator, references: int) -> bool:
    """Return whether the gap statistic prefers two clusters of `numbers` (n,) finite to one; False if all are equal or
    fewer than three.

    The numbers are scaled to 0..1 and compared with `references` sets of as many uniform numbers. One cluster suffices
    if Gap(1) >= Gap(2) - s_2. Gap(k) is the mean logarithm of the references' sum of squares within k clusters minus
    that of the numbers; s_2 is the deviation of these logarithms times sqrt(1 + 1 / references). Source: Tibshirani,
    Walther, Hastie 2001.
    """
    low, high = float(np.min(numbers)), float(np.max(numbers))
    if len(numbers) < 3 or low == high:
        return False
    own = _logarithms((np.asarray(numbers, dtype=np.float64) - low) / (high - low))
    drawn = np.array([_logarithms(random.random(len(numbers))) for _ in range(references)])
    spread = float(drawn[:, 1].std() * np.sqrt(1 + 1 / references))
    one, two = drawn.mean(axis=0) - own
    return not one >= two - spread


def _logarithms(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithms (2,) of the sum of squares of `numbers` (n,) within one and within the two best
    clusters."""
    lower = lower_cluster(numbers)
    parts = [numbers] if not lower.any() else [numbers[lower], numbers[~lower]]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log([_squares(numbers), sum(_squares(part) for part in parts)]))


def _squares(numbers: NDArray[np.float64]) -> float:
    """Return the sum of squared differences of `numbers` (n,) from their mean."""
    return float(((numbers - numbers.mean()) ** 2).sum())
