"""Min-Max: a perturbed mean whose largest distance to a known update is at most their largest mutual distance."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.threats.perturbation import Perturbing, larger_root, squared_distances


class MinMax(Perturbing):
    """Uploads mean + gamma p for the largest gamma with max_i |upload - x_i| <= max_ij |x_i - x_j|.

    Source: Shejwalkar and Houmansadr 2021.
    """

    kind: Literal["min_max"] = "min_max"

    def largest(self, squared: float, along: NDArray[np.float64], gram: NDArray[np.float64]) -> float:
        """Return the smallest of the bounds on gamma that the known updates set, see `Perturbing.largest`."""
        limit = squared_distances(gram).max()
        return float(larger_root(squared, along, limit - gram.diagonal()).min())
