"""Weighted geometric medians of points in few dimensions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def geometric_medians(
    points: NDArray[np.float64], weights: NDArray[np.float64], steps: int = 60
) -> NDArray[np.float64]:
    """Return the points m that minimise sum_j weights_kj |points_j - m|, one for each row of weights, (k, r).

    `points`: (n, r). `weights`: (k, n), >= 0, each row with a positive sum. `steps`: Weiszfeld iterations from the
    weighted mean. A point with more than half of the weight is the median.
    """
    scale = float(np.abs(points).max(initial=0.0))
    # Lower limit of distances, negligible against `scale`, to avoid division by 0.
    least = max(scale * 1e-7, 1e-150)
    medians: NDArray[np.float64] = (weights @ points) / weights.sum(axis=1, keepdims=True)
    squares = np.einsum("nr,nr->n", points, points)
    for _ in range(steps):
        # |x|^2 + |m|^2 - 2 x.m by matrix products; differences would need an array of k x n x r.
        distances = squares - 2 * medians @ points.T
        distances += np.einsum("kr,kr->k", medians, medians)[:, None]
        pull = weights / np.sqrt(np.maximum(distances, least**2))
        medians = (pull @ points) / pull.sum(axis=1, keepdims=True)
    return medians
