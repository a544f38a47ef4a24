"""A trusted node between the clients and the server that swaps layers of different clients' models.

For each layer (a module's weight and bias together), N times: two different clients are drawn, and their rows of that
layer change places. Sums over clients stay what they were, so the server's mean does; whose layer it was, the server
is no longer told. Source: algorithm 3, lines 6 to 11. It has to wait for the whole cohort.

No accountant gives credit for it. Amplification by shuffling needs uploads that look alike but for their data; here
each client's noise has its own size, layers of one model fit one another, and what the mean says is unchanged.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import Described
from asyncfl.learning.layout import Layout
from asyncfl.messages import Vector
from asyncfl.quantities import MeasuredIn


def swapped_order(rows: int, swaps: int, random: np.random.Generator) -> NDArray[np.int64]:
    """(rows,) whose layer lies in each place after `swaps` swaps of two different places, drawn at random."""
    order = np.arange(rows)
    if rows < 2:
        return order
    first = random.integers(rows, size=swaps)
    second = random.integers(rows - 1, size=swaps)
    second += second >= first
    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        order[one], order[other] = order[other], order[one]
    return order


def shuffle_layers(models: Vector, layout: Layout, swaps: int, random: np.random.Generator) -> None:
    """Swap layers between the rows of `models`, in place. `models`: (n, n_parameters) float32, all of one base."""
    for layer in layout.layers:
        order = swapped_order(len(models), swaps, random)
        # Indexing with an array copies, so that no row is overwritten before it is read.
        models[:, layer.slice] = models[order, layer.slice]


class Shuffler(Described):
    """The trusted node on the way of the uploads. It waits for the whole cohort, and needs updates that weigh alike."""

    swaps: Annotated[int, Field(ge=0, le=1_000_000, examples=[100]), MeasuredIn("swaps")]
    """N: swaps in each layer. Source: Xu, Tong, Dai 2025, algorithm 3."""
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("s")] = 0.0
    """Virtual seconds between the cohort's last update and what the server gets."""

    @property
    def description(self) -> str:
        """The number of swaps."""
        return f"{self.swaps} swaps in each layer"

    def shuffle(self, models: Vector, layout: Layout, sound: NDArray[np.bool_], random: np.random.Generator) -> None:
        """Swap layers in place between the rows that are `sound` (n,) and finite; others pass as they are.

        A malformed upload would make all those malformed that get a layer of it.
        """
        usable = np.flatnonzero(sound & np.isfinite(models).all(axis=1))
        if len(usable) == len(models):
            shuffle_layers(models, layout, self.swaps, random)
            return
        rows = models[usable]
        shuffle_layers(rows, layout, self.swaps, random)
        models[usable] = rows
