"""Pre-aggregations, which replace updates by means of several, or shorten them, before a rule aggregates them.

Means vary less than single updates. This helps robust rules where clients' data differ.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.component import Component
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.attacker_count import AttackerCount
from asyncfl.defences.distances import squared_distances


class PreAggregation(Component):
    """Base class of pre-aggregations: replaces the updates of a buffer by means of several, or shortens them."""

    logged: ClassVar[tuple[str, ...]] = ("clients.used", "summary.notes")
    one_of: ClassVar[tuple[str, ...]] = ("mix",)

    def mix(self, updates: Vector, shares: Floats, random: np.random.Generator | None) -> Floats:
        """Return the share of each update in each mixed row, (n_mixed, n_updates) float64. Rows sum to 1, or to
        less where updates are shortened.

        `updates`: (n_updates, n_parameters). `shares`: (n_updates,) > 0, weights that sum to 1. `random`: stream for
        methods that shuffle the updates; None: order of arrival.
        """
        raise NotImplementedError

    def share_out(self, mixing: Floats, shares: Floats) -> Floats:
        """Return the weights (n_mixed,) of the mixed rows, which sum to 1; `mixing`, `shares`: see `mix`."""
        raise NotImplementedError

    def rows(self, collected: int) -> int:
        """Return the number of mixed rows of `collected` updates."""
        return collected

    def faults(self, collected: int) -> Iterator[Fault]:
        """Yield why this cannot be applied to `collected` updates. Field names are relative to the pre-aggregation."""
        yield from ()

    def lowered(self, collected: int) -> tuple[str, ...]:
        """Return notes on settings that are lowered for as few as `collected` updates."""
        return ()

    def poisoned_share(self, share: float) -> float:
        """Return the largest share of mixed rows that contain poison, if `share` of the updates is poisoned."""
        return share


class Bucketing(PreAggregation):
    """Means of `size` updates each, grouped at random; the last bucket may hold fewer.

    Use it before a robust rule if clients' data differ and attackers are few: one attacker spoils its whole bucket.
    Within a bucket updates count by their weights. Source: Karimireddy et al. 2022, algorithm 1.
    """

    kind: Literal["bucketing"] = "bucketing"
    size: Annotated[int, Field(ge=1), MeasuredIn("updates")] = 2
    """Updates per bucket, >= 1; 1 has no effect."""

    def mix(self, updates: Vector, shares: Floats, random: np.random.Generator | None) -> Floats:
        n = len(updates)
        order = np.arange(n) if random is None else random.permutation(n)
        mixing = np.zeros((self.rows(n), n))
        mixing[np.arange(n) // self.size, order] = shares[order]
        return np.asarray(mixing / mixing.sum(axis=1, keepdims=True))

    def share_out(self, mixing: Floats, shares: Floats) -> Floats:
        return np.asarray((mixing > 0) @ shares)

    def rows(self, collected: int) -> int:
        return -(-collected // self.size)

    def poisoned_share(self, share: float) -> float:
        """Return `size` times the share, at most 1: in the worst case no bucket holds two poisoned updates."""
        return min(1.0, share * self.size)


class NearestNeighbourMixing(PreAggregation, AttackerCount):
    """Replaces each update by the mean of the n - f updates nearest to it, itself included.

    Use it before any robust rule if clients' data differ: it reduces the spread in which attackers hide. Neighbours
    count equally, whatever their weights; a mixed update keeps the weight of the update it replaces. Ties go to the
    earlier arrival, up to rounding. Source: Allouah et al. 2023, algorithm 2.
    """

    kind: Literal["nearest_neighbours"] = "nearest_neighbours"

    by_theory: ClassVar[tuple[int, int]] = (2, 1)
    computable: ClassVar[tuple[int, int]] = (1, 1)

    def faults(self, collected: int) -> Iterator[Fault]:
        return self.count_faults(collected)

    def lowered(self, collected: int) -> tuple[str, ...]:
        return self.count_lowered(collected)

    def mix(self, updates: Vector, shares: Floats, random: np.random.Generator | None) -> Floats:
        n = len(updates)
        neighbours = n - self.attackers(n)
        nearest = np.argsort(squared_distances(updates), axis=1, kind="stable")[:, :neighbours]
        mixing = np.zeros((n, n))
        np.put_along_axis(mixing, nearest, 1 / neighbours, axis=1)
        return mixing

    def share_out(self, mixing: Floats, shares: Floats) -> Floats:
        return shares
