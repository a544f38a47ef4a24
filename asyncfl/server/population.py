"""Which clients the server may ask: the idle, the busy, the banned and those whose budget is spent.

Drawing, adding and removing cost the same however many clients there are: idle clients lie in the front part of one
list, and a client that leaves swaps places with the last of them. Only a draw of the least served looks at everybody.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray


class Population:
    """The server's knowledge of its clients 0..n-1. At first nobody is idle."""

    def __init__(self, clients: int) -> None:
        self.clients = clients
        # Lists, not arrays: they are read and written one entry at a time.
        self._order = list(range(clients))
        self._place = list(range(clients))
        self._idle = 0
        self._asks = np.zeros(clients, dtype=bool)
        self.banned: set[int] = set()
        self.spent: set[int] = set()
        """Clients that answer no more because their privacy budget is spent."""
        self._left: set[int] = set()
        self.served = np.zeros(clients, dtype=np.int64)
        """How many tasks each client has been given."""

    def __len__(self) -> int:
        return self._idle

    def is_idle(self, client: int) -> bool:
        """Whether the client can be given a task."""
        return self._place[client] < self._idle

    @property
    def idle(self) -> NDArray[np.int64]:
        """The idle clients by number: (n_idle,)."""
        return np.flatnonzero(self._asks)

    def add(self, client: int) -> None:
        """`client` is idle now; no effect on one that is idle already, banned or spent."""
        if client not in self._left and not self.is_idle(client):
            self._swap(client, self._idle)
            self._idle += 1
            self._asks[client] = True

    def add_all(self) -> None:
        """Everybody who is neither banned nor spent is idle now."""
        if self._left:
            for client in range(self.clients):
                self.add(client)
        else:
            self._idle = self.clients
            self._asks[:] = True

    def remove(self, client: int) -> None:
        """`client` is no longer idle; no effect on one that is not."""
        if self.is_idle(client):
            self._idle -= 1
            self._asks[client] = False
            self._swap(client, self._idle)

    def ban(self, client: int) -> None:
        """`client` will never be idle again."""
        self.remove(client)
        self.banned.add(client)
        self._left.add(client)

    def retire(self, client: int) -> None:
        """`client` has spent its budget and will never be idle again."""
        self.remove(client)
        self.spent.add(client)
        self._left.add(client)

    @property
    def left(self) -> AbstractSet[int]:
        """The banned and the spent, who are never asked again."""
        return self._left

    @property
    def why_nobody(self) -> str | None:
        """Why no client will ever be idle again; None: one may."""
        if len(self._left) < self.clients:
            return None
        if len(self.banned) == self.clients:
            return "every client is banned"
        if len(self.spent) == self.clients:
            return "every client has spent its budget"
        return "every client is banned or has spent its budget"

    def _swap(self, client: int, place: int) -> None:
        old, other = self._place[client], self._order[place]
        self._order[old], self._order[place] = other, client
        self._place[other], self._place[client] = old, place

    def draw(self, count: int, random: np.random.Generator) -> list[int]:
        """`count` different idle clients, uniformly, or all of them where fewer are idle. They stop being idle."""
        drawn = []
        for _ in range(min(count, self._idle)):
            client = self._order[random.integers(self._idle)]
            self.remove(client)
            drawn.append(client)
        return drawn

    def draw_least_served(self, count: int, random: np.random.Generator) -> list[int]:
        """`count` idle clients, those with the fewest tasks first and ties at random. They stop being idle."""
        # By number: where clients lie in the list depends on history, the draw must not.
        idle = self.idle
        ties, served = random.random(len(idle)), self.served[idle]
        if 0 < count < len(idle):
            # Only those who can be drawn need sorting: populations may be large, and few are drawn at a time.
            first = np.flatnonzero(served <= np.partition(served, count - 1)[count - 1])
            idle, ties, served = idle[first], ties[first], served[first]
        drawn = [int(client) for client in idle[np.lexsort((ties, served))[:count]]]
        for client in drawn:
            self.remove(client)
        return drawn
