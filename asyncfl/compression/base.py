"""What a compression is: what is sent in place of an update, or of a model, and what is read from it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from asyncfl.component import Component
from asyncfl.messages import Vector

BYTES_PER_NUMBER = 4
"""Numbers that are not compressed travel as float32."""


class Compression(Component):
    """Base of the compressions, of updates (as differences from the model that was sent) or of published models.

    Of updates it is the last thing that a client does, after clipping and noise; of models the last that the server
    does.
    """

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.bytes_up",
        "rounds.bytes_down",
        "summary.notes",
    )

    @property
    def off(self) -> bool:
        """Whether numbers are sent as they are."""
        return False

    @property
    def remembers(self) -> bool:
        """Whether a client keeps what it did not send, for its next update."""
        return False

    @property
    def leaves_out(self) -> bool:
        """Whether numbers are left out, which does for a difference and would ruin a model."""
        return False

    @abstractmethod
    def payload_bytes(self, n_parameters: int) -> int:
        """Bytes of so many numbers, >= 1: the length of what `packed` makes of them."""
        raise NotImplementedError

    @abstractmethod
    def packed(self, update: Vector, random: np.random.Generator) -> bytes:
        """What is sent of the `update` (n_parameters,) float32, which is not changed.

        What is not finite stays so in at least one number: it is for the server to reject.
        """
        raise NotImplementedError

    @abstractmethod
    def unpacked(self, payload: bytes | memoryview, n_parameters: int) -> NDArray[np.float32]:
        """What is read from a payload, (n_parameters,) float32, the same on every machine.

        Raises ValueError for what `packed` cannot have made of so many numbers.
        """
        raise NotImplementedError

    def decoded(self, update: Vector, random: np.random.Generator) -> NDArray[np.float32]:
        """What is read, (n_parameters,) float32, of the `update` (n_parameters,) that is compressed."""
        return self.unpacked(self.packed(update, random), len(update))

    def notes(self) -> Iterator[str]:
        """What a reader of a run with privacy has to know of it, where updates are compressed so."""
        if not self.off:
            yield (
                "updates are compressed after their noise was added: that is post-processing, and what an upload gives "
                "away is no more than is claimed; but an update that was compressed can be longer than the clipping "
                "norm, and its error is no Gaussian noise: what is said of published models where the server relies on "
                "either (its own noise, the sum of the clients') holds for updates without compression"
            )


def of_length(payload: bytes | memoryview, wanted: int) -> memoryview:
    """The payload. Raises ValueError where it has another length than the bytes that are wanted."""
    if len(payload) != wanted:
        raise ValueError(f"a payload must have {wanted} bytes, got {len(payload)}")
    return memoryview(payload)
