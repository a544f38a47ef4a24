"""Compress the uploads of a run, with the clients' memory of numbers not yet sent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.base.streams import Streams
from asyncfl.compression.compression import Compression


def compressor_of(compression: Compression, streams: Streams) -> Compressor | None:
    """Make the compressor of a run's uploads; None where they are not compressed."""
    return None if compression.off else Compressor(compression, streams)


class Compressor:
    """Compressor of the uploads of one run."""

    def __init__(self, compression: Compression, streams: Streams) -> None:
        self.compression = compression
        self.streams = streams
        self._kept: dict[int, NDArray[np.float32]] = {}

    def compress(self, row: Vector, base: Vector, client: int, turn: int) -> bytes:
        """Compress the client's update from `base` to `row`, and return the payload.

        `row` is replaced by the model that the server reconstructs.
        """
        # Attackers may send anything: an overflow is not finite, and the server rejects it.
        with np.errstate(over="ignore", invalid="ignore"):
            update = row - base
            kept = self._kept.get(client)
            if kept is not None:
                update += kept
            return self._send(row, base, update, client, turn)

    def _send(self, row: Vector, base: Vector, update: Vector, client: int, turn: int) -> bytes:
        payload = self.compression.packed(update, self.streams.generator("compression", client, turn))
        read = self.compression.unpacked(payload, len(update))
        if self.compression.remembers:
            left = update - read
            # A remainder that is not finite would spoil all later updates.
            self._kept[client] = left if np.isfinite(left).all() else np.zeros_like(left)
        np.add(base, read, out=row)
        return payload

    def left_of(self, client: int) -> NDArray[np.float32] | None:
        """Remainder that the client has not sent yet, (n_parameters,); None where there is none."""
        return self._kept.get(client)

    def put(self, client: int, left: NDArray[np.float32] | None) -> None:
        """Set the remainder of a client."""
        self._kept.pop(client, None)
        if left is not None:
            self._kept[client] = left

    def kept(self, clients: Sequence[int]) -> list[float]:
        """L2 norm of the remainder of each of `clients`."""
        return [float(np.linalg.norm(self._kept[client])) if client in self._kept else 0.0 for client in clients]
