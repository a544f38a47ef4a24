"""Nearest-neighbour mixing: replaces each update by the mean of its nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import Fault
from asyncfl.base.messages import Vector
from asyncfl.defences.attacker_count import AttackerCount
from asyncfl.defences.distances import squared_distances
from asyncfl.defences.preaggregation import PreAggregation


class NearestNeighbourMixing(PreAggregation, AttackerCount):
    """Replaces each update by the mean of the n - f updates nearest to it, itself included.

    Use it before any robust rule if clients' data differ: it reduces the spread in which attackers hide. Neighbours
    count equally, whatever their weights; a mixed update keeps the weight of the update it replaces. Source: Allouah et
    al. 2023, algorithm 2.
    """

    kind: Literal["nearest_neighbours"] = "nearest_neighbours"

    theory: ClassVar[str] = "n >= 2f + 1"

    def max_by_theory(self, n: int) -> int:
        return (n - 1) // 2

    def max_computable(self, n: int) -> int:
        return n - 1

    def faults(self, collected: int) -> Iterator[Fault]:
        return self.count_faults(collected)

    def fit_to(self, collected: int) -> tuple[Self, tuple[str, ...]]:
        """Return this with `byzantine` at most the largest computable number, and notes, see
        `PreAggregation.fit_to`."""
        return self.lower_to(collected)

    def mix(
        self, updates: Vector, shares: NDArray[np.float64], random: np.random.Generator | None
    ) -> NDArray[np.float64]:
        """Return a matrix with 1 / (n - f) for the n - f nearest updates of each row, 0 elsewhere, see
        `PreAggregation.mix`. Ties go to the earlier arrival, up to rounding."""
        n = len(updates)
        neighbours = n - self.attackers(n)
        nearest = np.argsort(squared_distances(updates), axis=1, kind="stable")[:, :neighbours]
        mixing = np.zeros((n, n))
        np.put_along_axis(mixing, nearest, 1 / neighbours, axis=1)
        return mixing

    def share_out(self, mixing: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights unchanged."""
        return shares
