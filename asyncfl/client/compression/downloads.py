"""Compress published models: each version once, for all clients that download it, after all noise.

All clients that receive a version train from the same base, which the server has too; it keeps no state per client.
Compressions that leave out numbers need a base per client, and are refused. Rounding does not read data: it is
post-processing and gives away nothing more (Dwork and Roth 2014, proposition 2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from asyncfl.base.component import kind_of
from asyncfl.base.errors import Fault
from asyncfl.base.messages import Download, Vector
from asyncfl.base.streams import Streams
from asyncfl.client.compression.compression import Compression


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
