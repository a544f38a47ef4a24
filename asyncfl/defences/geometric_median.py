"""Geometric median: the point with the least sum of distances to the updates.

Weiszfeld's iterates are weighted means of the updates, z = sum c_i u_i with sum c_i = 1, and their distances follow
from those between updates: |u_i - z|^2 = (D c)_i - c' D c / 2. So the updates are read twice, for D and for the last
mean, however many iterations it takes.

These differences cancel where a row is very far away. From `FAR_RATIO` times the usual distance on they are computed in
float64. And since so far away a row pulls by its direction alone, it is drawn in along its line to the middle until it
is within `MAX_RATIO`, from where it pulls the same way to six digits.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.defences.distances import squared_distances
from asyncfl.defences.robust_rule import RobustRule, weighted_sum
from asyncfl.messages import Vector
from asyncfl.quantities import MeasuredIn

FAR_RATIO = 100.0
"""Distances of the usual row from the middle beyond which float32 has too few digits."""
MAX_RATIO = 1e6
"""Such distances beyond which a row is drawn in."""


class GeometricMedian(RobustRule):
    """Weighted geometric median by smoothed Weiszfeld iterations (RFA).

    Use it where attackers send large updates and hold less than half of the weight. Weights count as in the weighted
    mean. Source: Pillutla, Kakade, Harchaoui 2022, algorithm 2.
    """

    kind: Literal["geometric_median"] = "geometric_median"
    smoothing: Annotated[float, Field(gt=0), MeasuredIn("L2 norm")] = 1e-6
    """nu: distances below it count as it, > 0, in units of the updates."""
    iterations: Annotated[int, Field(ge=1), MeasuredIn("iterations")] = 1000
    """Most iterations, >= 1; fewer when the weights have settled."""
    tolerance: Annotated[float, Field(ge=0), MeasuredIn("weight")] = 1e-9
    """Largest change of a weight (they add up to 1) at which the iteration ends, >= 0."""

    def solve(self, updates: Vector, shares: NDArray[np.float64]) -> tuple[Vector, NDArray[np.float64]]:
        """The geometric median and what each row weighs in it, see `RobustRule.solve`."""
        distances = squared_distances(updates)
        middle, ratios = relative_distances(distances, shares, self.smoothing)
        if ratios.max() <= FAR_RATIO:
            weighed = weiszfeld(distances, shares, self.smoothing, self.iterations, self.tolerance)
            return weighted_sum(weighed, updates), weighed
        factors = MAX_RATIO / np.maximum(ratios, MAX_RATIO)
        points: NDArray[Any] = updates.astype(np.float64)
        for row in np.flatnonzero(factors < 1):
            # Factor 0: a mean of huge updates that overflowed has no direction.
            away = points[row] - points[middle] if factors[row] else 0.0
            points[row] = points[middle] + factors[row] * away
        weighed = weiszfeld(squared_distances(points), shares, self.smoothing, self.iterations, self.tolerance)
        centre = weighted_sum(weighed, points).astype(updates.dtype)
        weighed, spared = weighed * factors, float(weighed @ (1 - factors))
        weighed[middle] += spared
        return centre, weighed


def relative_distances(
    distances: NDArray[np.float64], shares: NDArray[np.float64], least: float
) -> tuple[int, NDArray[np.float64]]:
    """The row in the middle, and how far (n,) each row is from it, in usual distances.

    In the middle is the row with more than half of the weight (`shares`) nearest to it; how far that reaches, at least
    `least`, is the usual distance. `distances`: (n, n) squared.
    """
    order = np.argsort(distances, axis=1, kind="stable")
    held = np.cumsum(shares[order], axis=1)
    half = np.argmax(held > held[:, -1:] / 2, axis=1)
    radii = np.sqrt(np.take_along_axis(distances, order, axis=1)[np.arange(len(order)), half])
    middle = int(np.argmin(radii))
    return middle, np.sqrt(distances[middle]) / max(float(radii[middle]), least)


def weiszfeld(
    distances: NDArray[np.float64],
    shares: NDArray[np.float64],
    smoothing: float,
    iterations: int,
    tolerance: float = 0.0,
) -> NDArray[np.float64]:
    """(n,) what each point weighs in the geometric median; adds up to 1.

    `distances`: (n, n) squared; `shares`: (n,) the points' own weights, adding up to 1.
    """
    weighed = shares
    for _ in range(iterations):
        spread = distances @ weighed
        radii = np.sqrt(np.maximum(spread - weighed @ spread / 2, 0))
        pull = shares / np.maximum(radii, smoothing)
        settled, weighed = weighed, pull / pull.sum()
        if np.abs(weighed - settled).max() <= tolerance:
            break
    return weighed
