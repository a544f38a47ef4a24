"""Which clients the server may ask: the idle, the busy and the banned.

Drawing, adding and removing cost the same however many clients there are: idle clients lie in the front part of one
array, and a client that leaves swaps places with the last of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Population:
    """The server's knowledge of its clients 0..n-1. At first nobody is idle."""

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self._order = np.arange(clients, dtype=np.int64)
        self._place = np.arange(clients, dtype=np.int64)
        self._idle = 0
        self.banned: set[int] = set()
        self.served = np.zeros(clients, dtype=np.int64)
        """How many tasks each client has been given."""

    def __len__(self) -> int:
        return self._idle

    def is_idle(self, client: int) -> bool:
        """Whether the client can be given a task."""
        return bool(self._place[client] < self._idle)

    @property
    def idle(self) -> NDArray[np.int64]:
        """The idle clients, in no particular order: (n_idle,), a copy."""
        return self._order[: self._idle].copy()

    def add(self, client: int) -> None:
        """`client` is idle now; no effect on one that is idle already or banned."""
        if client not in self.banned and not self.is_idle(client):
            self._swap(client, self._idle)
            self._idle += 1

    def add_all(self) -> None:
        """Everybody who is not banned is idle now."""
        if self.banned:
            for client in range(self.clients):
                self.add(client)
        else:
            self._idle = self.clients

    def remove(self, client: int) -> None:
        """`client` is no longer idle; no effect on one that is not."""
        if self.is_idle(client):
            self._idle -= 1
            self._swap(client, self._idle)

    def ban(self, client: int) -> None:
        """`client` will never be idle again."""
        self.remove(client)
        self.banned.add(client)

    def _swap(self, client: int, place: int) -> None:
        old, other = self._place[client], self._order[place]
        self._order[old], self._order[place] = other, client
        self._place[other], self._place[client] = old, place

    def draw(self, count: int, random: np.random.Generator) -> list[int]:
        """`count` different idle clients, uniformly, or all of them where fewer are idle. They stop being idle."""
        drawn = []
        for _ in range(min(count, self._idle)):
            client = int(self._order[random.integers(self._idle)])
            self.remove(client)
            drawn.append(client)
        return drawn

    def draw_least_served(self, count: int, random: np.random.Generator) -> list[int]:
        """`count` idle clients, those with the fewest tasks first and ties at random. They stop being idle."""
        idle = self.idle
        # Sorted first: the order of the array depends on history, the draw must not.
        idle.sort()
        order = np.lexsort((random.random(len(idle)), self.served[idle]))[:count]
        drawn = [int(client) for client in idle[order]]
        for client in drawn:
            self.remove(client)
        return drawn
