"""Bucketing: replaces updates by the means of random buckets."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.messages import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.preaggregation import PreAggregation


class Bucketing(PreAggregation):
    """Means of `size` updates each, grouped at random; the last bucket may hold fewer.

    Use it before a robust rule if clients' data differ and attackers are few: one attacker spoils its whole bucket.
    Within a bucket updates count by their weights. Source: Karimireddy et al. 2022, algorithm 1.
    """

    kind: Literal["bucketing"] = "bucketing"
    size: Annotated[int, Field(ge=1), MeasuredIn("updates")] = 2
    """Updates per bucket, >= 1; 1 has no effect."""

    def mix(
        self, updates: Vector, shares: NDArray[np.float64], random: np.random.Generator | None
    ) -> NDArray[np.float64]:
        """Return the mixing matrix with one row per bucket, see `PreAggregation.mix`."""
        n = len(updates)
        order = np.arange(n) if random is None else random.permutation(n)
        mixing = np.zeros((self.rows(n), n))
        mixing[np.arange(n) // self.size, order] = shares[order]
        return np.asarray(mixing / mixing.sum(axis=1, keepdims=True))

    def share_out(self, mixing: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the summed weight of the updates of each bucket, (n_mixed,)."""
        return np.asarray((mixing > 0) @ shares)

    def rows(self, collected: int) -> int:
        """Return the number of buckets; the last may be incomplete."""
        return -(-collected // self.size)

    def poisoned_share(self, share: float) -> float:
        """Return `size` times the share, at most 1: in the worst case each poisoned update is in a bucket of
        its own."""
        return min(1.0, share * self.size)
