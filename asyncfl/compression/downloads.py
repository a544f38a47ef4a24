"""Published models as clients are sent them: each version is compressed once, whoever downloads it, and however often.

So everybody who was sent a version trained from the same base, which the server has too: it keeps nothing for each
client. What would save more, sending a client the few largest numbers of the difference from what it had before, needs
a base for each client, which asynchronous clients have of many versions: such a compression is refused.

Rounding comes after all noise and depends on no data: what a version gives away is no more than before, as nothing is
that is computed from it alone (Dwork and Roth 2014, proposition 2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from asyncfl.component import kind_of
from asyncfl.compression.base import Compression
from asyncfl.errors import Fault
from asyncfl.messages import Vector
from asyncfl.streams import Streams


@dataclass(frozen=True)
class Download:
    """A version as it is sent."""

    model: Vector
    """(n_parameters,) float32, what its receivers read; read-only."""
    payload: bytes | None = None
    """What they are sent; None: the model as it is."""


@dataclass(frozen=True)
class Downloads:
    """Makes the downloads of one run. Random numbers are of the version alone."""

    compression: Compression
    streams: Streams

    def of(self, model: Vector, version: int) -> Download:
        """What is sent of a version. `model`: (n_parameters,) float32, as the server has it; read-only."""
        if self.compression.off:
            return Download(model)
        payload = self.compression.packed(model, self.streams.generator("downloads", number=version))
        read = self.compression.unpacked(payload, len(model))
        read.flags.writeable = False
        return Download(read, payload)


def download_faults(compression: Compression) -> Iterator[Fault]:
    """A compression that is for differences: models would be ruined by it."""
    if compression.leaves_out or compression.remembers:
        yield Fault(
            "kind",
            f"must be one that leaves no number of a model out, none or quantised, got {kind_of(compression)}: that is "
            "for differences, and the model that a difference is from would be another one for each client",
        )
