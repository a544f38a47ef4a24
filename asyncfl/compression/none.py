"""Updates as they are."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.compression.base import BYTES_PER_NUMBER, Compression
from asyncfl.messages import Vector


class NoCompression(Compression):
    """Every number, as float32."""

    kind: Literal["none"] = "none"

    @property
    def off(self) -> bool:
        """Yes."""
        return True

    def payload_bytes(self, n_parameters: int) -> int:
        """Four for each parameter."""
        return BYTES_PER_NUMBER * n_parameters

    def decoded(self, update: Vector, random: np.random.Generator) -> NDArray[np.float32]:
        """The update."""
        return update
