"""Coordinate-wise median of the updates."""

from typing import Literal

from asyncfl.base.arrays import Floats, Vector
from asyncfl.defences.robust_rule import RobustRule
from asyncfl.defences.sorting import middle_mean


class Median(RobustRule):
    """Coordinate-wise median; the mean of the two middle values of an even number of updates.

    Use it if the number of attackers is unknown. Weights do not enter the centre. Source: Yin et al. 2018, definition
    1.
    """

    kind: Literal["median"] = "median"

    @property
    def is_coordinatewise(self) -> bool:
        return not self.pre

    def solve(self, updates: Vector, shares: Floats) -> tuple[Vector, None]:
        return middle_mean(updates, (len(updates) - 1) // 2), None
