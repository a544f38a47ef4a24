"""The shape of every aggregation rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.component import Component
from asyncfl.messages import Vector


class Rule(Component):
    """Turns the updates of a buffer into one."""

    def aggregate(self, updates: Vector, weights: NDArray[np.float64]) -> Vector:
        """One update out of many.

        `updates`: (n_updates, n_parameters) float32, what each client changed in the model it was sent.
        `weights`: (n_updates,) float64, >= 0, the factor that each update would have in a weighted sum: staleness times
        share of the data. Returns (n_parameters,) float32. Neither argument is changed.
        """
        raise NotImplementedError
