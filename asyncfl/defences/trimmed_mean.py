"""Coordinate-wise trimmed mean: the mean without the f largest and f smallest values."""

from typing import ClassVar, Literal

from asyncfl.base.arrays import Floats, Vector
from asyncfl.defences.robust_rule import CountingRule
from asyncfl.defences.sorting import middle_mean


class TrimmedMean(CountingRule):
    """Coordinate-wise mean without the f smallest and f largest values.

    Use it if fewer than half of the clients attack and clients' data are alike. Weights do not enter the centre.
    Source: Yin et al. 2018, definition 2. Requires n >= 2f + 1; `byzantine: auto` trims `expected_share` on each side.
    """

    kind: Literal["trimmed_mean"] = "trimmed_mean"

    by_theory: ClassVar[tuple[int, int]] = (2, 1)
    computable: ClassVar[tuple[int, int]] = (2, 1)

    @property
    def is_coordinatewise(self) -> bool:
        return not self.pre

    def solve(self, updates: Vector, shares: Floats) -> tuple[Vector, None]:
        return middle_mean(updates, self.attackers(len(updates))), None
