"""What went over the links of one seed, and what the tap holds of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Way: TypeAlias = Literal["down", "up"]


@dataclass
class Traffic:
    """Bytes sent either way, and whose messages the tap holds."""

    bytes_up: int = 0
    bytes_down: int = 0
    overheard_up: dict[int, int] = field(default_factory=dict)
    """Client -> its updates that the tap holds."""
    overheard_down: dict[int, int] = field(default_factory=dict)
    """Client -> models sent to it that the tap holds."""
    overheard_versions: set[int] = field(default_factory=set)
    """Versions that the tap holds from any downlink."""

    def count(self, sent_bytes: int, way: Way) -> None:
        """Add the bytes of a message, when it has ended or is broken off."""
        if way == "down":
            self.bytes_down += sent_bytes
        else:
            self.bytes_up += sent_bytes

    def overhear(self, way: Way, client: int, version: int) -> None:
        """Take note that the tap holds a message: model `version` on its way to `client`, or an update of it."""
        held = self.overheard_down if way == "down" else self.overheard_up
        held[client] = held.get(client, 0) + 1
        if way == "down":
            self.overheard_versions.add(version)
