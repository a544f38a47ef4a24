"""Geometric median: the point with the least sum of distances to the updates.

Weiszfeld's iterates are weighted means of the updates, z = sum c_i u_i with sum c_i = 1, and their distances follow
from those between updates: |u_i - z|^2 = (D c)_i - c' D c / 2. So the updates are read twice, for D and for the last
mean, however many iterations it takes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.defences.distances import squared_distances
from asyncfl.defences.robust import RobustRule, weighted_sum
from asyncfl.messages import Vector


class GeometricMedian(RobustRule):
    """Weighted geometric median by smoothed Weiszfeld iterations (RFA).

    Use it where attackers send large updates and hold less than half of the weight. Weights count as in the weighted
    mean. Source: Pillutla, Kakade, Harchaoui 2022, algorithm 2.
    """

    kind: Literal["geometric_median"] = "geometric_median"
    smoothing: Annotated[float, Field(gt=0)] = 1e-6
    """nu: distances below it count as it, > 0, in units of the updates."""
    iterations: Annotated[int, Field(ge=1)] = 1000
    """Most iterations, >= 1; fewer when the weights have settled."""
    tolerance: Annotated[float, Field(ge=0)] = 1e-9
    """Largest change of a weight (they add up to 1) at which the iteration ends, >= 0."""

    def solve(self, updates: Vector, shares: NDArray[np.float64]) -> tuple[Vector, NDArray[np.float64]]:
        """The geometric median and what each row weighs in it, see `RobustRule.solve`."""
        weighed = weiszfeld(squared_distances(updates), shares, self.smoothing, self.iterations, self.tolerance)
        return weighted_sum(weighed, updates), weighed


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
