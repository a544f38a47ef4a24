"""The largest numbers only, and what was left out later.

Stich, Cordonnier and Jaggi 2018, "Sparsified SGD with memory", algorithm 1: of m + x the k numbers of largest absolute
value are sent, the rest is the memory m of the next time. So everything is sent in the end, but late.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.compression.base import BYTES_PER_NUMBER, Compression, of_length
from asyncfl.messages import Vector
from asyncfl.quantities import MeasuredIn


class TopK(Compression):
    """The k numbers of largest absolute value, each as float32 with its place.

    Source: Stich, Cordonnier, Jaggi 2018, algorithm 1.
    """

    kind: Literal["top_k"] = "top_k"
    share: Annotated[float, Field(gt=0, le=1), MeasuredIn("share")] = 0.01
    """k over the number of parameters, above 0 to 1; at least one number is sent. Source: Stich, Cordonnier, Jaggi
    2018, algorithm 1."""
    error_feedback: bool = True
    """Whether a client adds what it did not send to its next update. It does so when its update is collected (in a live
    run when its training is over): of one that is lost nothing is kept. Source: Stich, Cordonnier, Jaggi 2018,
    algorithm 1."""

    @property
    def remembers(self) -> bool:
        """With error feedback."""
        return self.error_feedback

    @property
    def leaves_out(self) -> bool:
        """All but the largest."""
        return True

    def k(self, n_parameters: int) -> int:
        """Numbers that are sent."""
        return max(1, min(n_parameters, round(self.share * n_parameters)))

    def payload_bytes(self, n_parameters: int) -> int:
        """Four for each number sent, and their places: four bytes each, or one bit per parameter if that is less."""
        k = self.k(n_parameters)
        return BYTES_PER_NUMBER * k + min(4 * k, -(-n_parameters // 8))

    def packed(self, update: Vector, random: np.random.Generator) -> bytes:
        """Places and values of the largest, in order of place; draws nothing. Not finite counts as largest."""
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
        """Zeros for all but the largest."""
        payload, k = of_length(payload, self.payload_bytes(n_parameters)), self.k(n_parameters)
        end = len(payload) - BYTES_PER_NUMBER * k
        if self._as_bits(n_parameters):
            there = np.unpackbits(np.frombuffer(payload[:end], np.uint8), count=n_parameters, bitorder="little")
            places = np.flatnonzero(there)
        else:
            places = np.frombuffer(payload[:end], "<u4").astype(np.int64)
        if len(places) != k or (np.diff(places) <= 0).any() or places[-1] >= n_parameters:
            raise ValueError(f"must say {k} different places among {n_parameters}, in their order")
        read = np.zeros(n_parameters, np.float32)
        read[places] = np.frombuffer(payload[end:], "<f4")
        return read

    def _as_bits(self, n_parameters: int) -> bool:
        """Whether a bit for each parameter says with less where numbers belong."""
        return -(-n_parameters // 8) < 4 * self.k(n_parameters)
