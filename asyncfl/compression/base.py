"""What a compression of uploads is: how many bytes are sent, and what the server makes of them."""

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
    """Base of the compressions. What is compressed is an update, as a difference from the model that was sent.

    It is the last thing that a client does, after clipping and noise.
    """

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.bytes_up",
        "summary.notes",
    )

    @property
    def off(self) -> bool:
        """Whether updates are sent as they are."""
        return False

    @property
    def remembers(self) -> bool:
        """Whether a client keeps what it did not send, for its next update."""
        return False

    @abstractmethod
    def payload_bytes(self, n_parameters: int) -> int:
        """Bytes of an update of so many parameters, >= 1."""
        raise NotImplementedError

    @abstractmethod
    def decoded(self, update: Vector, random: np.random.Generator) -> NDArray[np.float32]:
        """What the server reads, (n_parameters,) float32, of the `update` (n_parameters,) that is compressed.

        What is not finite stays so in at least one number: it is for the server to reject.
        """
        raise NotImplementedError

    def notes(self) -> Iterator[str]:
        """What a reader of a run with privacy has to know of it."""
        if not self.off:
            yield (
                "updates are compressed after their noise was added: that is post-processing, and what an upload gives "
                "away is no more than is claimed; but an update that was compressed can be longer than the clipping "
                "norm, and its error is no Gaussian noise: what is said of published models where the server relies on "
                "either (its own noise, the sum of the clients') holds for updates without compression"
            )
