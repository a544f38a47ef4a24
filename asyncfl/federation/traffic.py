"""Traffic on the links of one seed, and the eavesdropper's share of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Way: TypeAlias = Literal["down", "up"]


@dataclass
class Traffic:
    """Bytes sent in both directions, and counts of overheard messages."""

    bytes_up: int = 0
    bytes_down: int = 0
    overheard_up: dict[int, int] = field(default_factory=dict)
    """Client -> number of its updates that were overheard."""
    overheard_down: dict[int, int] = field(default_factory=dict)
    """Client -> number of models sent to it that were overheard."""
    overheard_versions: set[int] = field(default_factory=set)
    """Versions overheard on any downlink."""

    def count(self, sent_bytes: int, way: Way) -> None:
        """Add the bytes of a message that has ended or was broken off."""
        if way == "down":
            self.bytes_down += sent_bytes
        else:
            self.bytes_up += sent_bytes

    def overhear(self, way: Way, client: int, version: int) -> None:
        """Count an overheard message: model `version` on its way to `client`, or an update of it."""
        held = self.overheard_down if way == "down" else self.overheard_up
        held[client] = held.get(client, 0) + 1
        if way == "down":
            self.overheard_versions.add(version)
