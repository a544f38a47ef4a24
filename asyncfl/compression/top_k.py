"""The largest numbers only, and what was left out later.

Stich, Cordonnier and Jaggi 2018, "Sparsified SGD with memory", algorithm 1: of m + x the k numbers of largest absolute
value are sent, the rest is the memory m of the next time. So everything is sent in the end, but late.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.compression.base import BYTES_PER_NUMBER, Compression
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
    """Whether a client adds what it did not send to its next update. It does so when its update is collected: of one
    that is lost nothing is kept. Source: Stich, Cordonnier, Jaggi 2018, algorithm 1."""

    @property
    def remembers(self) -> bool:
        """With error feedback."""
        return self.error_feedback

    def k(self, n_parameters: int) -> int:
        """Numbers that are sent."""
        return max(1, min(n_parameters, round(self.share * n_parameters)))

    def payload_bytes(self, n_parameters: int) -> int:
        """Four for each number sent, and their places: four bytes each, or one bit per parameter if that is less."""
        k = self.k(n_parameters)
        return BYTES_PER_NUMBER * k + min(4 * k, -(-n_parameters // 8))

    def decoded(self, update: Vector, random: np.random.Generator) -> NDArray[np.float32]:
        """The update with zeros for all but the largest; draws nothing. Not finite counts as largest."""
        k, read = self.k(len(update)), np.zeros_like(update)
        size = np.where(np.isfinite(update), np.abs(update), np.inf)
        largest = np.argpartition(size, len(update) - k)[len(update) - k :]
        read[largest] = update[largest]
        return read
