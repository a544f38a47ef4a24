"""Base of pre-aggregations, which replace updates by means of several before a rule aggregates them.

Means are less spread out than single updates, which is what robust rules suffer from when clients' data differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from asyncfl.component import Component
from asyncfl.errors import Fault
from asyncfl.messages import Vector


class PreAggregation(Component):
    """Base of pre-aggregations: replaces the updates of a buffer by means of several."""

    logged: ClassVar[tuple[str, ...]] = (
        "clients.used",
        "summary.notes",
    )

    def mix(
        self, updates: Vector, shares: NDArray[np.float64], random: np.random.Generator | None
    ) -> NDArray[np.float64]:
        """(n_mixed, n_updates) float64: row k says of what the k-th mixed update is made; rows add up to 1.

        `updates`: (n_updates, n_parameters); `shares`: (n_updates,) > 0, weights that add up to 1. `random` shuffles
        where the method asks for it; None: the order of arrival.
        """
        raise NotImplementedError

    def share_out(self, mixing: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n_mixed,) shares of the mixed updates, adding up to 1."""
        raise NotImplementedError

    def rows(self, collected: int) -> int:
        """MixedUpdates updates that come out of `collected` updates."""
        return collected

    def faults(self, collected: int) -> Iterator[Fault]:
        """Why this cannot be done to `collected` updates, fields named relative to it; none: it can."""
        yield from ()

    def fit_to(self, collected: int) -> tuple[Self, tuple[str, ...]]:
        """This as it can be done to `collected` updates, and notes on what had to be lowered for that."""
        return self, ()

    def poisoned_share(self, share: float) -> float:
        """Share of the mixed updates that hold poison if `share` of the updates is poison."""
        return share
