"""Clients that are always online."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.streams import Streams
from asyncfl.world.availability.pattern import Availability, ClientTraits, Presence


class AlwaysOnline(Availability):
    """Clients that are always online."""

    kind: Literal["always"] = "always"

    def start(self, traits: ClientTraits, streams: Streams) -> Presence:
        """Return the presence of clients that are always online, without a draw."""
        return AlwaysPresent(traits.clients)


class AlwaysPresent(Presence):
    """Presence of clients that are online all the time."""

    def __init__(self, clients: int) -> None:
        self._clients = clients

    def online(self, client: int, time_s: float) -> bool:
        """Return True."""
        return True

    def next_change(self, client: int, time_s: float) -> float:
        """Return inf."""
        return math.inf

    def all_online(self, time_s: float) -> NDArray[np.bool_]:
        """Return True for each client."""
        return np.ones(self._clients, dtype=np.bool_)
