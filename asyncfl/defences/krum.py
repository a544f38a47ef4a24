"""Krum: selects the one update whose nearest neighbours are nearest."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.distances import squared_distances
from asyncfl.defences.robust_rule import CountingRule, weighted_sum
from asyncfl.messages import Vector

Neighbours = Literal["n-f-2", "n-f-1"]


def krum_scores(
    distances: NDArray[np.float64], attackers: int, neighbours: Neighbours = "n-f-2"
) -> NDArray[np.float64]:
    """(n,) sum of each row's smallest distances to others; the least is Krum's choice.

    `distances`: (n, n) squared; `neighbours`: how many are summed, at least 1 (0 of a single row).
    """
    n = len(distances)
    number = max(1, n - attackers - (2 if neighbours == "n-f-2" else 1))
    others = distances.copy()
    # A row is never its own neighbour, even where others are at distance 0.
    np.fill_diagonal(others, np.inf)
    others.sort(axis=1)
    return np.asarray(others[:, : min(number, n - 1)].sum(axis=1))


class Krum(CountingRule):
    """The update whose n - f - 2 nearest others are nearest: the rest is thrown away.

    Use it where attackers are few and clients' data alike; with noise on the updates it picks one client's noise whole.
    Weights do not enter the choice; ties go to the earlier arrival, but only up to rounding: what is equal on paper may
    differ in its last digit. Source: Blanchard et al. 2017, section 4, squared
    distances. Needs n >= 2f + 3.
    """

    kind: Literal["krum"] = "krum"
    neighbours: Neighbours = "n-f-2"
    """Neighbours that are summed over: the original's, or one more as in byzfl, which chooses differently in a quarter
    of random cases."""

    theory: ClassVar[str] = "n >= 2f + 3"

    def max_by_theory(self, n: int) -> int:
        """(n - 3) / 2."""
        return max(0, (n - 3) // 2)

    def max_computable(self, n: int) -> int:
        """As many as leave one neighbour; 0 of fewer than three updates, where all are as good."""
        return max(0, n - 3)

    def solve(self, updates: Vector, shares: NDArray[np.float64]) -> tuple[Vector, NDArray[np.float64]]:
        """The chosen row, and 1 for it, see `RobustRule.solve`."""
        attackers = self.allowed(len(updates))
        scores = krum_scores(squared_distances(updates), attackers, self.neighbours)
        chosen = np.zeros(len(updates))
        chosen[np.argmin(scores)] = 1
        return weighted_sum(chosen, updates), chosen
