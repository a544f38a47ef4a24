"""Numbers in two clusters: 2-means in one dimension, solved exactly.

In one dimension the clusters of k-means are intervals, so the best of the n - 1 cuts of the sorted numbers is the
optimum; no starting points, no iterations, no local minima.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def lower_cluster(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which scores are in the lower of the two clusters with the least sum of squares.

    `scores`: (n,) finite. Returns (n,) bool. Equal scores never part, so nobody is in the lower cluster where all are
    equal, or where there are fewer than two. Of equally good cuts the lowest is taken: fewer are accused.
    """
    values = np.asarray(scores, dtype=np.float64)
    lower = np.zeros(len(values), dtype=bool)
    if len(values) < 2 or values.min() == values.max():
        return lower
    order = np.argsort(values, kind="stable")
    # Shifted to its mean: the sums of squares then lose no digits to a large common offset.
    ranked = values[order] - values.mean()
    left = np.cumsum(ranked)[:-1]
    sizes = np.arange(1, len(ranked))
    # The sum of squares inside the clusters is a constant minus this one between them (the total is 0).
    between = left**2 / sizes + left**2 / (len(ranked) - sizes)
    between[ranked[1:] == ranked[:-1]] = -np.inf
    best = between.max()
    cut = int(np.flatnonzero(between >= best - 1e-12 * abs(best))[0]) + 1
    lower[order[:cut]] = True
    return lower
