"""Bulyan: Krum again and again, then the values nearest to the median."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.distances import squared_distances
from asyncfl.defences.krum import krum_scores
from asyncfl.defences.robust import CountingRule
from asyncfl.messages import Vector

CHUNK = 8192
"""Parameters that are sorted at once, so that they stay in the cache."""


class Bulyan(CountingRule):
    """Mean of each parameter over the n - 4f values nearest to the median, among n - 2f updates chosen by Krum.

    Use it against attackers that hide a large error in a single parameter, where n is large enough. Weights do not
    enter. Source: El Mhamdi, Guerraoui, Rouault 2018, algorithm 1. Needs n >= 4f + 3.
    """

    kind: Literal["bulyan"] = "bulyan"

    theory: ClassVar[str] = "n >= 4f + 3"

    def bears(self, n: int) -> int:
        """(n - 3) / 4."""
        return max(0, (n - 3) // 4)

    def computes(self, n: int) -> int:
        """As many as leave one value."""
        return max(0, (n - 1) // 4)

    def solve(self, updates: Vector, shares: NDArray[np.float64]) -> tuple[Vector, NDArray[np.float64]]:
        """The centre, and equal weights of the updates that Krum chose, see `RobustRule.solve`."""
        n = len(updates)
        attackers = self.allowed(n)
        chosen = _chosen(squared_distances(updates), attackers, n - 2 * attackers)
        weighed = np.zeros(n)
        weighed[chosen] = 1 / len(chosen)
        return nearest_to_median(updates[chosen], n - 4 * attackers), weighed


def _chosen(distances: NDArray[np.float64], attackers: int, number: int) -> NDArray[np.int64]:
    """`number` rows, each Krum's choice among those that the ones before left."""
    left = np.arange(len(distances))
    chosen: list[int] = []
    for _ in range(number):
        best = int(np.argmin(krum_scores(distances[np.ix_(left, left)], attackers)))
        chosen.append(int(left[best]))
        left = np.delete(left, best)
    return np.array(sorted(chosen))


def nearest_to_median(updates: Vector, number: int) -> Vector:
    """Mean of each parameter over the `number` values nearest to its median.

    `updates`: (n, d); 1 <= number <= n. In sorted order these values are neighbours, so only n - number + 1 windows are
    compared, by their farther end. Ties go to the smaller values. Returns (d,) of the updates' type.
    """
    n, d = updates.shape
    out = np.empty(d, dtype=updates.dtype)
    if number == n:
        return np.asarray(updates.mean(axis=0))
    for start in range(0, d, CHUNK):
        ordered = np.sort(updates[:, start : start + CHUNK], axis=0)
        median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
        nearest = np.full(ordered.shape[1], np.inf)
        best = np.zeros(ordered.shape[1], dtype=np.int64)
        for low in range(n - number + 1):
            radius = np.maximum(median - ordered[low], ordered[low + number - 1] - median)
            better = radius < nearest
            nearest = np.where(better, radius, nearest)
            best[better] = low
        sums = np.zeros_like(median)
        for offset in range(number):
            sums += np.take_along_axis(ordered, (best + offset)[None], axis=0)[0]
        out[start : start + CHUNK] = sums / number
    return out
