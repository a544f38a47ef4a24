"""Base class of pre-aggregations, which replace updates by means of several before a rule aggregates them.

Means vary less than single updates. This helps robust rules where clients' data differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.component import Component
from asyncfl.base.errors import Fault
from asyncfl.base.messages import Vector


class PreAggregation(Component):
    """Base class of pre-aggregations: replaces the updates of a buffer by means of several of them."""

    logged: ClassVar[tuple[str, ...]] = (
        "clients.used",
        "summary.notes",
    )

    def mix(
        self, updates: Vector, shares: NDArray[np.float64], random: np.random.Generator | None
    ) -> NDArray[np.float64]:
        """Return the mixing matrix (n_mixed, n_updates) float64: the share of each update in each mixed row. Rows sum
        to 1.

        `updates`: (n_updates, n_parameters). `shares`: (n_updates,) > 0, weights that sum to 1. `random` shuffles the
        updates if the method asks for it; None: order of arrival.
        """
        raise NotImplementedError

    def share_out(self, mixing: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights (n_mixed,) of the mixed rows; they sum to 1.

        `mixing`: (n_mixed, n_updates) from `mix`. `shares`: (n_updates,) weights of the updates, which sum to 1.
        """
        raise NotImplementedError

    def rows(self, collected: int) -> int:
        """Return the number of mixed rows of `collected` updates."""
        return collected

    def faults(self, collected: int) -> Iterator[Fault]:
        """Yield why this cannot be applied to `collected` updates. Field names are relative to the pre-aggregation."""
        yield from ()

    def fit_to(self, collected: int) -> tuple[Self, tuple[str, ...]]:
        """Return this pre-aggregation adapted to `collected` updates, and notes on settings that were lowered."""
        return self, ()

    def poisoned_share(self, share: float) -> float:
        """Return the largest share of mixed rows that contain poison, if `share` of the updates is poisoned."""
        return share
