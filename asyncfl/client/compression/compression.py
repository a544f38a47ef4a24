"""Base class of compressions: from an update or model to the bytes that are sent, and back; and no compression."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.base.component import Component, kind_of
from asyncfl.base.errors import Fault
from asyncfl.base.streams import Streams
from asyncfl.protocol.messages import Download

BYTES_PER_NUMBER = 4
"""Bytes of an uncompressed number, a float32."""


class Compression(Component):
    """Base class of the compressions of updates (differences from the model that was sent) and published models. A
    client compresses last, after clipping and noise; so does the server."""

    logged: ClassVar[tuple[str, ...]] = ("rounds.bytes_up", "rounds.bytes_down", "summary.notes")

    @property
    def off(self) -> bool:
        """Whether numbers are sent uncompressed."""
        return False

    @property
    def remembers(self) -> bool:
        """Whether a client adds the numbers that it did not send to its next update."""
        return False

    @property
    def leaves_out(self) -> bool:
        """Whether numbers are left out, which suits differences but not models."""
        return False

    def rounding_norm(self, norm: float, largest: float, n_parameters: int) -> float:
        """Most by which compression can lengthen an update of this L2 `norm`, no number of which exceeds `largest`;
        infinite where nothing bounds it."""
        return math.inf

    @abstractmethod
    def payload_bytes(self, n_parameters: int) -> int:
        """Length of `packed` for `n_parameters` >= 1 numbers."""
        raise NotImplementedError

    @abstractmethod
    def packed(self, update: Vector, random: np.random.Generator) -> bytes:
        """Compress the `update` (n_parameters,) float32, which is not changed. An update that is not finite is also not
        finite after decompression, so that the server can reject it."""
        raise NotImplementedError

    @abstractmethod
    def unpacked(self, payload: bytes | memoryview, n_parameters: int) -> NDArray[np.float32]:
        """Decompress a payload to (n_parameters,) float32, with the same result on every machine. Raises ValueError for
        a payload that `packed` cannot have made."""
        raise NotImplementedError

    def decoded(self, update: Vector, random: np.random.Generator) -> NDArray[np.float32]:
        """Compress and decompress an `update` (n_parameters,) float32."""
        return self.unpacked(self.packed(update, random), len(update))

    def notes(self) -> Iterator[str]:
        """Notes on a private run whose updates are compressed."""
        if not self.off:
            yield (
                "updates are compressed after noise was added: this is post-processing, so the guarantee of an upload "
                "is unchanged; but a compressed update can be longer than the clipping norm, and its error is not "
                "Gaussian: guarantees of published models that rely on either (the server's own noise, the sum of the "
                "clients' noise) hold for updates without compression"
            )


def of_length(payload: bytes | memoryview, wanted: int) -> memoryview:
    """Check that a payload has `wanted` bytes. Raises ValueError."""
    if len(payload) != wanted:
        raise ValueError(f"a payload must have {wanted} bytes, got {len(payload)}")
    return memoryview(payload)


class NoCompression(Compression):
    """No compression: every number is sent as float32."""

    kind: Literal["none"] = "none"

    @property
    def off(self) -> bool:
        return True

    def payload_bytes(self, n_parameters: int) -> int:
        return BYTES_PER_NUMBER * n_parameters

    def packed(self, update: Vector, random: np.random.Generator) -> bytes:
        return np.ascontiguousarray(update, dtype="<f4").tobytes()

    def unpacked(self, payload: bytes | memoryview, n_parameters: int) -> NDArray[np.float32]:
        return np.frombuffer(of_length(payload, self.payload_bytes(n_parameters)), dtype="<f4").astype(np.float32)


@dataclass(frozen=True)
class Downloads:
    """Compressor of the published versions of one run. Its random numbers depend on the version alone."""

    compression: Compression
    streams: Streams

    def __call__(self, model: Vector, version: int) -> Download:
        """Compress a version. `model`: (n_parameters,) float32 of the server; read-only."""
        if self.compression.off:
            return Download(model)
        payload = self.compression.packed(model, self.streams.generator("downloads", number=version))
        read = self.compression.unpacked(payload, len(model))
        read.flags.writeable = False
        return Download(read, payload)


def download_faults(compression: Compression) -> Iterator[Fault]:
    """Fault of a compression that leaves out numbers, which suits differences only."""
    if compression.leaves_out or compression.remembers:
        yield Fault(
            "kind",
            f"must be a compression that keeps all numbers of a model, none or quantised, got {kind_of(compression)}: "
            "it suits differences only, and each client would need the difference from another model",
        )
