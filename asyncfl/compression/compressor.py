"""Compression over a run: what each client still has to send."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from asyncfl.compression.base import Compression
from asyncfl.messages import Vector
from asyncfl.streams import Streams


def compressor_of(compression: Compression, streams: Streams) -> Compressor | None:
    """What compresses the uploads of one run; None: nothing does."""
    return None if compression.off else Compressor(compression, streams)


class Compressor:
    """Compresses the uploads of one run."""

    def __init__(self, compression: Compression, streams: Streams) -> None:
        self.compression = compression
        self.streams = streams
        self._kept: dict[int, NDArray[np.float32]] = {}

    def compress(self, row: Vector, base: Vector, client: int, turn: int) -> bytes:
        """Replace in place the model in `row` by what the server makes of the client's update from `base`.

        Returns what is sent: the update, packed.
        """
        # Attackers may send anything: what overflows is not finite, and rejected.
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
            # What is not finite is not remembered: it would spoil all that comes after it.
            self._kept[client] = left if np.isfinite(left).all() else np.zeros_like(left)
        np.add(base, read, out=row)
        return payload

    def left_of(self, client: int) -> NDArray[np.float32] | None:
        """(n_parameters,) what the client has not sent yet; None: nothing."""
        return self._kept.get(client)

    def put(self, client: int, left: NDArray[np.float32] | None) -> None:
        """Have a client go on with that in place of what it has left."""
        self._kept.pop(client, None)
        if left is not None:
            self._kept[client] = left

    def kept(self, clients: Sequence[int]) -> list[float]:
        """L2 norm of what each of `clients` has not sent yet."""
        return [float(np.linalg.norm(self._kept[client])) if client in self._kept else 0.0 for client in clients]
