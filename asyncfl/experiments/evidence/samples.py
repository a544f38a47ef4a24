"""Values of a cell by seed, and differences of two cells, seed by seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Seeds = NDArray[np.int64]

RESOLUTION = 1e-6
"""Relative difference up to which two values are the same: the last digits of sums of float32 mean nothing."""


@dataclass(frozen=True)
class Sample:
    """One number per seed."""

    seeds: Seeds
    """(n,) numbers of the seeds, ascending, each once."""
    values: Floats
    """(n,) values; +-inf where the seed diverged or never got there, NaN where it says nothing."""

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def is_constant(self) -> bool:
        """Whether at least two seeds have the same value, and all of them."""
        x = self.values
        if len(x) < 2 or np.isnan(x).any():
            return False
        return bool((x == x[0]).all() or (np.isfinite(x).all() and np.ptp(x) <= RESOLUTION * np.abs(x).max()))

    def among(self, seeds: Seeds) -> Sample:
        """Return the values of these seeds only."""
        kept = np.isin(self.seeds, seeds)
        return Sample(self.seeds[kept], self.values[kept])


def pair(a: Sample, b: Sample) -> tuple[Sample, Sample]:
    """Return both samples at the seeds at which both have a value."""
    both, of_a, of_b = np.intersect1d(a.seeds, b.seeds, return_indices=True)
    x, y = a.values[of_a], b.values[of_b]
    known = ~(np.isnan(x) | np.isnan(y))
    return Sample(both[known], x[known]), Sample(both[known], y[known])


def excess(larger: Floats, smaller: Floats, by: float, log: bool = False) -> Floats:
    """Return by how much `larger` exceeds `smaller` by more than `by`; exactly 0 where the two are the same.

    larger, smaller: (n,), paired. Two infinite values of one sign tie: neither is better. log: the values are
    logarithms, whose differences are relative already.
    """
    with np.errstate(invalid="ignore"):
        over = np.asarray(larger - smaller - by, dtype=np.float64)
        size = np.ones_like(over) if log else np.maximum(np.maximum(np.abs(larger), np.abs(smaller)), abs(by))
        # where both are infinite nothing is known of their difference but that neither is ahead
        same = larger == smaller
        over[same], size[same] = -by, 1.0 if log else abs(by)
        over[np.isfinite(over) & (np.abs(over) <= RESOLUTION * size)] = 0.0
    return over


def q_values(p: ArrayLike) -> Floats:
    """Return for each p-value (n,) the expected share of false ones among all that are as small. NaN stays NaN."""
    p = np.asarray(p, dtype=np.float64)
    q = np.full_like(p, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    ranked = p[order] * len(order) / np.arange(1, len(order) + 1)
    q[order] = np.minimum(1.0, np.minimum.accumulate(ranked[::-1])[::-1])
    return q
