"""A trusted node between the clients and the server that swaps layers between the clients' models.

For each layer (the weight and bias of a module) it draws two different clients N times and swaps their rows of that
layer. Sums over clients do not change, so the server's mean does not either, but the server no longer knows which
client a layer came from. Source: algorithm 3, lines 6 to 11. The node must wait for the whole cohort.

No accountant credits it. Amplification by shuffling requires uploads that differ only in their data. Here each client's
noise has its own size, the layers of one model match each other, and the mean is unchanged.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.base.messages import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.layout import Layout


def swapped_order(rows: int, swaps: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return (rows,) which row is in each place after `swaps` random swaps of two different places."""
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
    """Swap layers between the rows of `models` (n, n_parameters) float32 in place. All rows have the same base
    model."""
    for layer in layout.layers:
        order = swapped_order(len(models), swaps, random)
        # Indexing with an array copies, so that no row is overwritten before it is read.
        models[:, layer.slice] = models[order, layer.slice]


class Shuffler(Described):
    """Trusted node on the path of the uploads. It waits for the whole cohort and needs updates with equal weights."""

    swaps: Annotated[int, Field(ge=0, le=1_000_000, examples=[100]), MeasuredIn("swaps")]
    """N: number of swaps in each layer. Source: Xu, Tong, Dai 2025, algorithm 3."""
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("s")] = 0.0
    """Virtual seconds between the arrival of the cohort's last update and the delivery to the server."""

    @property
    def description(self) -> str:
        return f"{self.swaps} swaps in each layer"

    def shuffle(self, models: Vector, layout: Layout, sound: NDArray[np.bool_], random: np.random.Generator) -> None:
        """Swap layers in place between the rows that are `sound` (n,) and finite; other rows stay unchanged."""
        usable = np.flatnonzero(sound & np.isfinite(models).all(axis=1))
        if len(usable) == len(models):
            shuffle_layers(models, layout, self.swaps, random)
            return
        rows = models[usable]
        shuffle_layers(rows, layout, self.swaps, random)
        models[usable] = rows
