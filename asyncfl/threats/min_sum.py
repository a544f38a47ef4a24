"""Min-Sum: a perturbed mean whose sum of squared distances to the known updates is at most the largest such sum."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.threats.perturbation import Perturbing, larger_root, squared_distances


class MinSum(Perturbing):
    """Uploads mean + gamma p for the largest gamma with sum_i |upload - x_i|^2 <= max_i sum_j |x_i - x_j|^2.

    Source: Shejwalkar and Houmansadr 2021.
    """

    kind: Literal["min_sum"] = "min_sum"

    def largest(self, squared: float, along: NDArray[np.float64], gram: NDArray[np.float64]) -> float:
        """Return the gamma at which the upload's sum of squared distances equals the largest one of a known update,
        see `Perturbing.largest`."""
        limit = squared_distances(gram).sum(axis=1).max()
        slack = (limit - np.trace(gram)) / len(gram)
        return float(larger_root(squared, np.asarray(along.mean()), np.asarray(slack)))
