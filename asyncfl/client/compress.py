"""Compress: what the server can reconstruct of each update, after noise, so that it is post-processing."""

from __future__ import annotations

import numpy as np

from asyncfl.base.arrays import Vector
from asyncfl.client.batch import Batch, PathComponents, Stage
from asyncfl.client.compression import Compression

REMAINDER = "compression_remainder"
"""Name in a client's state of the numbers (n_parameters,) that it has not sent yet."""


class Compress(Stage):
    """Stage that compresses uploads, with the clients' memory of numbers that they have not sent yet."""

    def __init__(self, facts: PathComponents, compression: Compression) -> None:
        super().__init__(facts)
        self.compression = compression

    def run(self, batch: Batch) -> None:
        batch.packed = tuple(
            self.compress(row, one.base, one.client, one.turn)
            for row, one in zip(batch.rows, batch.assignments, strict=True)
        )

    def compress(self, row: Vector, base: Vector, client: int, turn: int) -> bytes:
        """Compress the client's update from `base` to `row`, and return the payload. `row` is replaced by the model
        that the server reconstructs."""
        # Attackers may send anything: an overflow is not finite, and the server rejects it.
        with np.errstate(over="ignore", invalid="ignore"):
            update = row - base
            remainder = self.facts.states.of(client).arrays.get(REMAINDER)
            if remainder is not None:
                update += remainder
            payload = self.compression.packed(update, self.facts.streams.generator("compression", client, turn))
            read = self.compression.unpacked(payload, len(update))
            if self.compression.remembers:
                left = update - read
                # A remainder that is not finite would spoil all later updates.
                left = left if np.isfinite(left).all() else np.zeros_like(left)
                self.facts.states.set_array(client, REMAINDER, left)
            np.add(base, read, out=row)
        return payload
