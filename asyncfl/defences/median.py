"""Median of each parameter over the updates."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.robust_rule import RobustRule
from asyncfl.defences.sorting import middle_mean
from asyncfl.messages import Vector


class Median(RobustRule):
    """Median of each parameter; of an even number of updates the mean of the two in the middle.

    Use it where nothing is known about the number of attackers. Weights do not count: values are ordered, not clients.
    Source: Yin et al. 2018, definition 1.
    """

    kind: Literal["median"] = "median"

    @property
    def is_coordinatewise(self) -> bool:
        """Unless pre-aggregation makes means of whole updates first."""
        return not self.pre

    def centre(self, updates: Vector, shares: NDArray[np.float64]) -> Vector:
        """The median, see `RobustRule.centre`."""
        return middle_mean(updates, (len(updates) - 1) // 2)
