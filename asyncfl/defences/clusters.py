"""Numbers in clusters: k-means in one dimension solved exactly, and whether there is more than one cluster at all.

In one dimension clusters are intervals of the sorted numbers, so that the best cuts are found by dynamic programming
over where the last cluster begins: no starting points, no local minima. `two_means` has the case that SAFL needs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.two_means import lower_cluster


def k_means(numbers: NDArray[np.float64], clusters: int) -> NDArray[np.int64]:
    """(n,) cluster of each number, 0 the lowest, with the least sum of squares within clusters.

    `numbers`: (n,) finite. Equal numbers never part: of fewer different ones than `clusters` each is a cluster.
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
    # cost[i, j]: of one cluster from value i to value j; infinite where it ends before it begins.
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
    """Whether the gap statistic prefers more than one cluster of `numbers` (n,) finite; False where all are equal.

    The numbers are scaled to 0..1 and compared with `references` sets of as many uniform ones: one cluster is enough if
    Gap(1) >= Gap(2) - s_2, with Gap(k) the mean logarithm of their sums of squares within k clusters less its own, and
    s_2 the deviation of those logarithms times sqrt(1 + 1 / references). Source: Tibshirani, Walther, Hastie 2001.
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
    """Logarithm of the sum of squares within one and within two clusters."""
    lower = lower_cluster(numbers)
    parts = [numbers] if not lower.any() else [numbers[lower], numbers[~lower]]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log([_squares(numbers), sum(_squares(part) for part in parts)]))


def _squares(numbers: NDArray[np.float64]) -> float:
    return float(((numbers - numbers.mean()) ** 2).sum())
