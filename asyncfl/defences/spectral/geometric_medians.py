"""Weighted geometric medians of points, which lie where the majority is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def geometric_medians(
    points: NDArray[np.float64], weights: NDArray[np.float64], steps: int = 60
) -> NDArray[np.float64]:
    """Points m that minimise sum_j weights_kj |points_j - m|, one for each row of weights.

    `points`: (n, r). `weights`: (k, n), >= 0, each row with a positive sum. `steps`: Weiszfeld iterations from the
    weighted mean. Returns (k, r). With more than half of the weight on one point the median is that point.
    """
    scale = float(np.abs(points).max(initial=0.0))
    # A distance of 0 would divide by 0; so small a one changes nothing that is measured in `scale`.
    least = max(scale * 1e-7, 1e-150)
    medians: NDArray[np.float64] = (weights @ points) / weights.sum(axis=1, keepdims=True)
    squares = np.einsum("nr,nr->n", points, points)
    for _ in range(steps):
        # |x|^2 + |m|^2 - 2 x.m: products of matrices, where differences would fill an array of k x n x r.
        distances = squares - 2 * medians @ points.T
        distances += np.einsum("kr,kr->k", medians, medians)[:, None]
        pull = weights / np.sqrt(np.maximum(distances, least**2))
        medians = (pull @ points) / pull.sum(axis=1, keepdims=True)
    return medians
