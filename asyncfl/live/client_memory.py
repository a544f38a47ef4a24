"""What a client must not forget when its process ends: the budget that it has spent, and what its training left.

The file is written before an upload leaves. It is its owner's alone (mode 0600), and nothing in it is sent.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, Struct, field

from asyncfl.base.errors import AsyncflError, shortened, system_says
from asyncfl.base.files.atomic import atomic_file
from asyncfl.base.files.reading import check_ordinary
from asyncfl.base.messages import Vector

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Charged: TypeAlias = Literal["upload", "scores"]
Charge: TypeAlias = tuple[Charged, Count, Count | None]
"""Charge to a client's budget: (`upload`, turn, epochs or None for all) or (`scores`, number of models, None)."""


class ClientMemoryError(AsyncflError):
    """The memory of a client cannot be read or written."""


class ClientMemory(Struct):
    """Memory of a client between two of its uploads."""

    client: str = ""
    """Name of the client."""
    run: str = ""
    """Name of the run."""
    charges: list[Charge] = field(default_factory=list)
    """Uploads and scores that its budget was charged for in this run, in order; empty without a budget."""
    turns: dict[str, int] = field(default_factory=dict)
    """Kind of message of the server -> turn of the last one."""
    personal: bytes | None = None
    """Its own layers as float32; None: it has none, or did not train yet."""
    left_over: bytes | None = None
    """What compression left of its last update as float32; None: nothing."""
    uploads: Count = 0
    """Uploads in this run."""
    earlier: Count = 0
    """Uploads in earlier runs."""

    def of_run(self, run: str) -> ClientMemory:
        """Return the memory for a run: this one, or a new one for another run than this."""
        return self if self.run == run else ClientMemory(self.client, run, earlier=self.earlier + self.uploads)

    @property
    def rows(self) -> tuple[Vector | None, Vector | None]:
        """Its own layers, and what compression left over."""
        return _row(self.personal), _row(self.left_over)

    def keep_rows(self, personal: Vector | None, left_over: Vector | None) -> None:
        """Store its own layers, and what compression left over."""
        self.personal, self.left_over = (None if row is None else row.tobytes() for row in (personal, left_over))


def _row(content: bytes | None) -> Vector | None:
    return None if content is None else np.frombuffer(content, np.float32)


class ClientMemoryFile:
    """File with the memory of one client."""

    def __init__(self, path: Path, client: str) -> None:
        """`client`: its name."""
        self.path, self.client = path, client

    def load(self) -> ClientMemory:
        """Read the memory; an empty one without a file. Raises ClientMemoryError."""
        try:
            check_ordinary(self.path)
            memory = msgspec.msgpack.decode(self.path.read_bytes(), type=ClientMemory)
        except FileNotFoundError:
            return ClientMemory(self.client)
        except OSError as error:
            raise ClientMemoryError(f"cannot read {self.path}: {system_says(error)}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ClientMemoryError(
                f"{self.path} is not the memory of a client ({shortened(error, 100)}); it held the budget that was "
                "spent: remove it only if that may begin anew"
            ) from None
        if memory.client != self.client:
            raise ClientMemoryError(
                f"{self.path} is the memory of client {shortened(memory.client)}, not of {self.client}; name another "
                "file (--memory)"
            )
        return memory

    def save(self, memory: ClientMemory) -> None:
        """Write the memory, completely or not at all. Raises ClientMemoryError."""
        try:
            with atomic_file(self.path) as part, part.open("wb") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(msgspec.msgpack.encode(memory))
                file.flush()
                os.fsync(file.fileno())
        except AsyncflError as error:
            raise ClientMemoryError(f"{error}; no update leaves before its cost is on record") from None
