"""Exact 2-means in one dimension.

In one dimension the clusters of k-means are intervals, so the best of the n - 1 cuts of the sorted numbers is optimal;
there are no starting points, iterations or local minima.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def lower_cluster(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether each score is in the lower of the two clusters with the least sum of squares, (n,) bool.

    `scores`: (n,) finite. Equal scores share a cluster, so the lower cluster is empty if all scores are equal or there
    are fewer than two. Of equally good cuts the lowest is taken, which accuses fewer.
    """
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
