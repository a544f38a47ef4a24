"""Compression over a run: what each client still has to send."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from asyncfl.compression.base import Compression
from asyncfl.messages import Vector
from asyncfl.streams import Streams


class Compressor:
    """Compresses the uploads of one run."""

    def __init__(self, compression: Compression, streams: Streams) -> None:
        self.compression = compression
        self.streams = streams
        self._kept: dict[int, NDArray[np.float32]] = {}

    def compress(self, row: Vector, base: Vector, client: int, turn: int) -> None:
        """Replace in place the model in `row` by what the server makes of the client's update from `base`."""
        # Attackers may send anything: what overflows is not finite, and rejected.
        with np.errstate(over="ignore", invalid="ignore"):
            update = row - base
            kept = self._kept.get(client)
            if kept is not None:
                update += kept
            self._send(row, base, update, client, turn)

    def _send(self, row: Vector, base: Vector, update: Vector, client: int, turn: int) -> None:
        read = self.compression.decoded(update, self.streams.generator("compression", client, turn))
        if self.compression.remembers:
            left = update - read
            # What is not finite is not remembered: it would spoil all that comes after it.
            self._kept[client] = left if np.isfinite(left).all() else np.zeros_like(left)
        np.add(base, read, out=row)

    def kept(self, clients: Sequence[int]) -> list[float]:
        """L2 norm of what each of `clients` has not sent yet."""
        return [float(np.linalg.norm(self._kept[client])) if client in self._kept else 0.0 for client in clients]
