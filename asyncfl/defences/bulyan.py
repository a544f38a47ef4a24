"""Bulyan: selects updates by repeated Krum, then averages the values nearest to the median of each parameter."""

from typing import ClassVar, Literal

import numpy as np

from asyncfl.base.arrays import Floats, Vector
from asyncfl.defences.distances import squared_distances
from asyncfl.defences.krum import krum_scores
from asyncfl.defences.robust_rule import CountingRule
from asyncfl.defences.sorting import CHUNK, arranged, full_network


class Bulyan(CountingRule):
    """Coordinate-wise mean of the n - 4f values nearest to the median, among n - 2f updates that Krum selects.

    Use it against attackers that hide a large error in a single parameter, if n is large enough. Weights do not enter.
    Requires n >= 4f + 3. For f < 3 the last selections of Krum use a single neighbour; ties go to the earlier arrival,
    up to rounding. Source: El Mhamdi, Guerraoui, Rouault 2018, algorithm 1.
    """

    kind: Literal["bulyan"] = "bulyan"

    by_theory: ClassVar[tuple[int, int]] = (4, 3)
    computable: ClassVar[tuple[int, int]] = (4, 1)

    def solve(self, updates: Vector, shares: Floats) -> tuple[Vector, Floats]:
        n, attackers = len(updates), self.attackers(len(updates))
        distances, left = squared_distances(updates), np.arange(n)
        for _ in range(n - 2 * attackers):
            left = np.delete(left, np.argmin(krum_scores(distances[np.ix_(left, left)], attackers)))
        chosen = np.setdiff1d(np.arange(n), left)
        weighed = np.zeros(n)
        weighed[chosen] = 1 / len(chosen)
        return nearest_to_median(updates[chosen], n - 4 * attackers), weighed


def nearest_to_median(updates: Vector, number: int) -> Vector:
    """Return the coordinate-wise mean of the `number` values nearest to the median, (d,) of the updates' type.
    `updates`: (n, d); 1 <= number <= n. In sorted order these values are adjacent, so only n - number + 1 windows are
    compared, by the distance of their farther end. Ties go to the smaller values."""
    n, d = updates.shape
    if number == n:
        return np.asarray(updates.mean(axis=0))
    out = np.empty(d, dtype=updates.dtype)
    scratch = np.empty((n + 1, min(CHUNK, d)), dtype=updates.dtype)
    # Windows with huge values may overflow; they are never the nearest.
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, d, CHUNK):
            columns = updates[:, start : start + CHUNK]
            ordered = arranged(columns, full_network(n), scratch[:, : columns.shape[1]])
            median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
            nearest = np.full_like(median, np.inf)
            best = out[start : start + CHUNK]
            for low in range(n - number + 1):
                window = ordered[low : low + number]
                radius = np.maximum(median - window[0], window[-1] - median)
                # Each window is summed anew: a running sum would keep rounding errors of huge values.
                total = window[0].copy()
                for row in window[1:]:
                    total += row
                np.copyto(best, total, where=radius < nearest)
                np.minimum(nearest, radius, out=nearest)
            best /= number
    return out
