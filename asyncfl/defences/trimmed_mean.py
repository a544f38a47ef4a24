"""Coordinate-wise trimmed mean: the mean without the f largest and f smallest values."""

from __future__ import annotations

from typing import ClassVar, Literal

from asyncfl.base.messages import Floats, Vector
from asyncfl.defences.robust_rule import CountingRule
from asyncfl.defences.sorting import middle_mean


class TrimmedMean(CountingRule):
    """Coordinate-wise mean without the f smallest and f largest values.

    Use it if fewer than half of the clients attack and clients' data are alike. Weights do not enter the centre.
    Source: Yin et al. 2018, definition 2. Requires n >= 2f + 1; `byzantine: auto` trims `expected_share` on each side.
    """

    kind: Literal["trimmed_mean"] = "trimmed_mean"

    theory: ClassVar[str] = "n >= 2f + 1"

    def max_by_theory(self, n: int) -> int:
        return (n - 1) // 2

    def max_computable(self, n: int) -> int:
        return (n - 1) // 2

    @property
    def is_coordinatewise(self) -> bool:
        return not self.pre

    def centre(self, updates: Vector, shares: Floats) -> Vector:
        return middle_mean(updates, self.allowed(len(updates)))
