"""Nearest-neighbour mixing: replaces each update by the mean of those nearest to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.attacker_count import AttackerCount
from asyncfl.defences.distances import squared_distances
from asyncfl.defences.preaggregation import PreAggregation
from asyncfl.errors import Fault
from asyncfl.messages import Vector


class NearestNeighbourMixing(PreAggregation, AttackerCount):
    """Each update becomes the mean of the n - f updates nearest to it, itself included.

    Use it before any robust rule when clients' data differ: it cuts down the spread that attackers hide in. Neighbours
    count alike, whatever their weights; the mixed update keeps the weight of the one it is made around. Source: Allouah
    et al. 2023, algorithm 2.
    """

    kind: Literal["nearest_neighbours"] = "nearest_neighbours"

    theory: ClassVar[str] = "n >= 2f + 1"

    def max_by_theory(self, n: int) -> int:
        """Fewer than half."""
        return (n - 1) // 2

    def max_computable(self, n: int) -> int:
        """All but one."""
        return n - 1

    def faults(self, collected: int) -> Iterator[Fault]:
        """See `PreAggregation.faults`."""
        return self.count_faults(collected)

    def fit_to(self, collected: int) -> tuple[Self, tuple[str, ...]]:
        """With the largest `byzantine` that can be computed, see `PreAggregation.fit_to`."""
        return self.lower_to(collected)

    def mix(
        self, updates: Vector, shares: NDArray[np.float64], random: np.random.Generator | None
    ) -> NDArray[np.float64]:
        """1 / (n - f) at the n - f nearest, see `PreAggregation.mix`. Ties go to the earlier arrival,
        as far as rounding leaves them ties."""
        n = len(updates)
        neighbours = n - self.attackers(n)
        nearest = np.argsort(squared_distances(updates), axis=1, kind="stable")[:, :neighbours]
        mixing = np.zeros((n, n))
        np.put_along_axis(mixing, nearest, 1 / neighbours, axis=1)
        return mixing

    def share_out(self, mixing: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """As they were."""
        return shares
