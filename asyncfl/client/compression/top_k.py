"""Top-k sparsification with memory: send the largest numbers now, and the others later.

Stich, Cordonnier and Jaggi 2018, "Sparsified SGD with memory", algorithm 1: the k numbers of m + x with the largest
absolute values are sent, the rest is the memory m of the next update. Every number is sent in the end, but late.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.client.compression.compression import BYTES_PER_NUMBER, Compression, of_length


class TopK(Compression):
    """Sparsification to the k numbers of largest absolute value, sent as float32 with their positions. Source: Stich,
    Cordonnier, Jaggi 2018, algorithm 1."""

    kind: Literal["top_k"] = "top_k"
    share: Annotated[float, Field(gt=0, le=1), MeasuredIn("share")] = 0.01
    """k / number of parameters, in (0, 1]; at least one number is sent. Source: Stich, Cordonnier, Jaggi 2018,
    algorithm 1."""
    error_feedback: bool = True
    """Whether a client adds the numbers that it did not send to its next update. Its memory changes when an update is
    collected (in a live run when training ends), not when it is lost. Source: Stich, Cordonnier, Jaggi 2018, algorithm
    1."""

    @property
    def remembers(self) -> bool:
        return self.error_feedback

    @property
    def leaves_out(self) -> bool:
        return True

    def k(self, n_parameters: int) -> int:
        """Count of numbers that are sent."""
        return max(1, min(n_parameters, round(self.share * n_parameters)))

    def rounding_norm(self, norm: float, largest: float, n_parameters: int) -> float:
        # A part of an update is not longer than the update; with its memory it is.
        return math.inf if self.error_feedback else 0.0

    def payload_bytes(self, n_parameters: int) -> int:
        k = self.k(n_parameters)
        return BYTES_PER_NUMBER * k + min(4 * k, -(-n_parameters // 8))

    def packed(self, update: Vector, random: np.random.Generator) -> bytes:
        k = self.k(len(update))
        size = np.where(np.isfinite(update), np.abs(update), np.inf)
        largest = np.sort(np.argpartition(size, len(update) - k)[len(update) - k :])
        if self._as_bits(len(update)):
            there = np.zeros(len(update), dtype=np.uint8)
            there[largest] = 1
            places = np.packbits(there, bitorder="little").tobytes()
        else:
            places = largest.astype("<u4").tobytes()
        return places + update[largest].astype("<f4").tobytes()

    def unpacked(self, payload: bytes | memoryview, n_parameters: int) -> NDArray[np.float32]:
        payload, k = of_length(payload, self.payload_bytes(n_parameters)), self.k(n_parameters)
        end = len(payload) - BYTES_PER_NUMBER * k
        if self._as_bits(n_parameters):
            there = np.unpackbits(np.frombuffer(payload[:end], np.uint8), count=n_parameters, bitorder="little")
            places = np.flatnonzero(there)
        else:
            places = np.frombuffer(payload[:end], "<u4").astype(np.int64)
        if len(places) != k or (np.diff(places) <= 0).any() or places[-1] >= n_parameters:
            raise ValueError(f"must hold {k} different positions among {n_parameters}, in ascending order")
        read = np.zeros(n_parameters, np.float32)
        read[places] = np.frombuffer(payload[end:], "<f4")
        return read

    def _as_bits(self, n_parameters: int) -> bool:
        """Whether one bit for each parameter is the shorter encoding of the positions."""
        return -(-n_parameters // 8) < 4 * self.k(n_parameters)
