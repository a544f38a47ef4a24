"""State that a client carries from one task to the next: its spent budget, and what its training left."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import numpy as np
from msgspec import Meta, Struct, field

from asyncfl.base.arrays import Vector

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Charged: TypeAlias = Literal["upload", "scores"]
Charge: TypeAlias = tuple[Charged, Count, Count | None]
"""Charge to a client's budget: (`upload`, turn, epochs or None for all) or (`scores`, number of models, None)."""


class ClientMemory(Struct):
    """State of a client between two of its tasks. It stays with the client."""

    charges: list[Charge] = field(default_factory=list)
    """Uploads and scores that its budget was charged for, in order; empty without a budget."""
    turns: dict[str, int] = field(default_factory=dict)
    """Kind of message of the server -> turn of the last one."""
    personal: bytes | None = None
    """Its own layers as float32; None: it has none, or did not train yet."""
    left_over: bytes | None = None
    """What compression left of its last update as float32; None: nothing."""

    @property
    def rows(self) -> tuple[Vector | None, Vector | None]:
        """Its own layers, and what compression left over."""
        return _row(self.personal), _row(self.left_over)

    def keep_rows(self, personal: Vector | None, left_over: Vector | None) -> None:
        """Store its own layers, and what compression left over."""
        self.personal, self.left_over = (None if row is None else row.tobytes() for row in (personal, left_over))


def _row(content: bytes | None) -> Vector | None:
    return None if content is None else np.frombuffer(content, np.float32)
