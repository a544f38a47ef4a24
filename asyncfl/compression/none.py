"""No compression."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.compression.compression import BYTES_PER_NUMBER, Compression, of_length


class NoCompression(Compression):
    """No compression: every number is sent as float32."""

    kind: Literal["none"] = "none"

    @property
    def off(self) -> bool:
        """True."""
        return True

    def payload_bytes(self, n_parameters: int) -> int:
        """4 bytes for each parameter."""
        return BYTES_PER_NUMBER * n_parameters

    def packed(self, update: Vector, random: np.random.Generator) -> bytes:
        """Return the float32 bytes of the update."""
        return np.ascontiguousarray(update, dtype="<f4").tobytes()

    def unpacked(self, payload: bytes | memoryview, n_parameters: int) -> NDArray[np.float32]:
        """Read the float32 numbers."""
        return np.frombuffer(of_length(payload, self.payload_bytes(n_parameters)), dtype="<f4").astype(np.float32)
