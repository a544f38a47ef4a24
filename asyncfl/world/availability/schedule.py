"""Presence given by windows of time, which can be queried for any time in any order."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from asyncfl.world.availability.pattern import Presence


class ScheduledPresence(Presence):
    """Clients that are online in windows [from_s, until_s), which are in order and do not touch."""

    def __init__(self, clients: int) -> None:
        self._clients = clients

    @abstractmethod
    def window(self, client: int, time_s: float) -> tuple[float, float]:
        """Return the client's first window that ends after `time_s`, (from_s, until_s); (inf, inf): there is none."""
        raise NotImplementedError

    def online(self, client: int, time_s: float) -> bool:
        """Return whether the client is within a window."""
        return self._window(client, time_s)[0] <= time_s

    def next_change(self, client: int, time_s: float) -> float:
        """Return the end of the current window, or the start of the next one."""
        from_s, until_s = self._window(client, time_s)
        return until_s if from_s <= time_s else from_s

    def all_online(self, time_s: float) -> NDArray[np.bool_]:
        """Return for each client whether it is online at `time_s`."""
        return np.array([self.online(client, time_s) for client in range(self._clients)], dtype=np.bool_)

    def _window(self, client: int, time_s: float) -> tuple[float, float]:
        """Return `window(client, time_s)`. Raises ValueError for an unknown client or an invalid time."""
        if not 0 <= client < self._clients:
            raise ValueError(f"client must be 0..{self._clients - 1}, got {client}")
        if not 0 <= time_s < math.inf:
            raise ValueError(f"time_s must be finite and >= 0, got {time_s}")
        return self.window(client, time_s)
