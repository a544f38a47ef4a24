"""Exact clusters of numbers, and tests for more than one cluster.

In one dimension clusters are intervals of the sorted numbers, so the best boundaries can be found exactly, without
starting points or local minima.
"""

import numpy as np

from asyncfl.base.arrays import Bools, Floats, Ints

MIN_GAP = 0.2  # smallest difference of means between two groups that counts: without noise any would be many deviations


def lower_cluster(scores: Floats) -> Bools:
    """Return whether each score is in the lower of the two clusters with the least sum of squares, (n,) bool. `scores`:
    (n,) finite. Equal scores share a cluster, so the lower cluster is empty if all scores are equal or there are fewer
    than two. Of equally good cuts the lowest is taken, which accuses fewer."""
    values = np.asarray(scores, dtype=np.float64)
    lower = np.zeros(len(values), dtype=bool)
    if len(values) < 2 or values.min() == values.max():
        return lower
    order = np.argsort(values, kind="stable")
    # Centred, so that sums of squares lose no digits to a large common offset.
    ranked = values[order] - values.mean()
    left = np.cumsum(ranked)[:-1]
    sizes = np.arange(1, len(ranked))
    # The sum of squares within the clusters is a constant minus this one between them (the total sum is 0).
    between = left**2 / sizes + left**2 / (len(ranked) - sizes)
    between[ranked[1:] == ranked[:-1]] = -np.inf
    best = between.max()
    cut = int(np.flatnonzero(between >= best - 1e-12 * abs(best))[0]) + 1
    lower[order[:cut]] = True
    return lower


def separate_lower(values: Floats, apart: float) -> Bools:
    """Return the lower cluster (n,) if the means of both clusters are more than `apart` standard deviations (pooled,
    within the clusters) and `MIN_GAP` apart; otherwise all False. A single group, cut in two, is 2.6 apart."""
    lower = lower_cluster(values)
    if not lower.any():
        return lower
    low, high = values[lower], values[~lower]
    within = np.sqrt((low.var() * len(low) + high.var() * len(high)) / len(values))
    return lower & bool(high.mean() - low.mean() > max(apart * within, MIN_GAP))


def k_means(numbers: Floats, clusters: int) -> Ints:
    """Return the cluster of each number (n,), 0 the lowest, with the least sum of squares within clusters. `numbers`:
    (n,) finite. Equal numbers share a cluster; if there are fewer distinct numbers than `clusters`, each is a
    cluster."""
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
    # Dynamic programming over the start of the last cluster.
    for _ in range(1, clusters):
        through = np.concatenate([[np.inf], least[:-1]])[:, None] + cost
        begins.append(np.argmin(through, axis=0))
        least = through.min(axis=0)
    label, end = np.zeros(n, dtype=np.int64), n - 1
    for number, begin in reversed(list(enumerate(begins, start=1))):
        label[begin[end] : end + 1] = number
        end = begin[end] - 1
    return label[which]


def has_clusters(numbers: Floats, random: np.random.Generator, references: int) -> bool:
    """Return whether the gap statistic prefers two clusters of `numbers` (n,) finite to one; False if all are equal or
    fewer than three. The numbers are scaled to 0..1 and compared with `references` sets of as many uniform numbers. One
    cluster suffices if Gap(1) >= Gap(2) - s_2. Gap(k) is the mean logarithm of the references' sum of squares within k
    clusters minus that of the numbers; s_2 is the deviation of these logarithms times sqrt(1 + 1 / references). Source:
    Tibshirani, Walther, Hastie 2001."""
    low, high = float(np.min(numbers)), float(np.max(numbers))
    if len(numbers) < 3 or low == high:
        return False
    own = _logarithms((np.asarray(numbers, dtype=np.float64) - low) / (high - low))
    drawn = np.array([_logarithms(random.random(len(numbers))) for _ in range(references)])
    spread = float(drawn[:, 1].std() * np.sqrt(1 + 1 / references))
    one, two = drawn.mean(axis=0) - own
    return not one >= two - spread


def _logarithms(numbers: Floats) -> Floats:
    """Return the logarithms (2,) of the sum of squares within one and within the two best clusters."""
    lower = lower_cluster(numbers)
    parts = [numbers] if not lower.any() else [numbers[lower], numbers[~lower]]
    one, *two = (float(((part - part.mean()) ** 2).sum()) for part in (numbers, *parts))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log([one, sum(two)]))
