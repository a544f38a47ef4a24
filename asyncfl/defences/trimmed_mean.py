"""Trimmed mean of each parameter: the mean over the updates without the largest and smallest values."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.robust_rule import CountingRule
from asyncfl.defences.sorting import middle_mean
from asyncfl.messages import Vector


class TrimmedMean(CountingRule):
    """Mean of each parameter, less its f smallest and f largest values.

    Use it where attackers are under half and clients' data alike. Weights do not count: values are ordered, not
    clients. Source: Yin et al. 2018, definition 2. Needs n >= 2f + 1; `byzantine: auto` drops `expected_share` on each
    side.
    """

    kind: Literal["trimmed_mean"] = "trimmed_mean"

    theory: ClassVar[str] = "n >= 2f + 1"

    def max_by_theory(self, n: int) -> int:
        """(n - 1) / 2."""
        return (n - 1) // 2

    def max_computable(self, n: int) -> int:
        """The same: something must be left."""
        return (n - 1) // 2

    @property
    def is_coordinatewise(self) -> bool:
        """Unless pre-aggregation makes means of whole updates first."""
        return not self.pre

    def centre(self, updates: Vector, shares: NDArray[np.float64]) -> Vector:
        """The trimmed mean, see `RobustRule.centre`."""
        return middle_mean(updates, self.allowed(len(updates)))
