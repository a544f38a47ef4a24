"""Geometric median: the point with the least sum of distances to the updates.

Weiszfeld's iterates are weighted means of the updates, z = sum c_i u_i with sum c_i = 1. Their distances to the updates
follow from the squared distances D between updates: |u_i - z|^2 = (D c)_i - c' D c / 2. The updates are therefore read
only twice, for D and for the final mean.

These differences cancel if an update is very far away. If one is more than `FAR_RATIO` times the usual distance away,
distances are computed in float64. An update so far away pulls by its direction alone, so it is moved along its line to
the middle until it is within `MAX_RATIO` usual distances; its pull is the same to six digits.
"""

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.distances import squared_distances
from asyncfl.defences.robust_rule import RobustRule, weighted_sum

FAR_RATIO = 100.0  # distance from the middle update, in usual distances, beyond which float32 has too few digits
MAX_RATIO = 1e6  # distance from the middle update, in usual distances, beyond which an update is moved closer


class GeometricMedian(RobustRule):
    """Weighted geometric median by smoothed Weiszfeld iterations (RFA).

    Use it if attackers send large updates and have less than half of the weight. Weights count as in the weighted mean.
    Source: Pillutla, Kakade, Harchaoui 2022, algorithm 2.
    """

    kind: Literal["geometric_median"] = "geometric_median"
    smoothing: Annotated[float, Field(gt=0), MeasuredIn("L2 norm")] = 1e-6
    """nu: lower limit of distances, > 0, in units of the updates."""
    iterations: Annotated[int, Field(ge=1), MeasuredIn("iterations")] = 1000
    """Maximum number of iterations, >= 1; fewer if the weights have converged."""
    tolerance: Annotated[float, Field(ge=0), MeasuredIn("weight")] = 1e-9
    """Iteration stops when no weight (they sum to 1) changes by more than this, >= 0."""

    def solve(self, updates: Vector, shares: Floats) -> tuple[Vector, Floats]:
        distances = squared_distances(updates)
        middle, ratios = relative_distances(distances, shares, self.smoothing)
        if ratios.max() <= FAR_RATIO:
            weighed = self.weiszfeld(distances, shares)
            return weighted_sum(weighed, updates), weighed
        factors = MAX_RATIO / np.maximum(ratios, MAX_RATIO)
        points: NDArray[Any] = updates.astype(np.float64)
        for row in np.flatnonzero(factors < 1):
            points[row] = points[middle] + factors[row] * (points[row] - points[middle])
        weighed = self.weiszfeld(squared_distances(points), shares)
        centre = weighted_sum(weighed, points).astype(updates.dtype)
        weighed, spared = weighed * factors, float(weighed @ (1 - factors))
        weighed[middle] += spared
        return centre, weighed

    def weiszfeld(self, distances: Floats, shares: Floats) -> Floats:
        """Return the weights (n,) of the points in their geometric median; they sum to 1. `distances`: (n, n) squared
        distances; `shares`: (n,) the points' own weights, which sum to 1."""
        weighed = shares
        for _ in range(self.iterations):
            spread = distances @ weighed
            radii = np.sqrt(np.maximum(spread - weighed @ spread / 2, 0))
            pull = shares / np.maximum(radii, self.smoothing)
            settled, weighed = weighed, pull / pull.sum()
            if np.abs(weighed - settled).max() <= self.tolerance:
                break
        return weighed


def relative_distances(distances: Floats, shares: Floats, least: float) -> tuple[int, Floats]:
    """Return the index of the middle row, and the distance (n,) of each row from it in usual distances. The middle row
    is the one with the smallest distance within which rows with more than half of the weight `shares` (n,) lie; that
    distance, at least `least`, is the usual distance. `distances`: (n, n) squared."""
    order = np.argsort(distances, axis=1, kind="stable")
    held = np.cumsum(shares[order], axis=1)
    half = np.argmax(held > held[:, -1:] / 2, axis=1)
    radii = np.sqrt(np.take_along_axis(distances, order, axis=1)[np.arange(len(order)), half])
    middle = int(np.argmin(radii))
    return middle, np.sqrt(distances[middle]) / max(float(radii[middle]), least)
