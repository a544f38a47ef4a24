"""Which clients the server may ask: the idle, the busy, the banned and those whose budget is spent.

Clients are drawn in a random order of their numbers that is fixed before anybody looks who is idle (`RandomOrder`):
the first who are idle are drawn. So it does not matter in which order they came, and where one is idle or not, all
others who are drawn stay the same, but for one who takes its place or leaves it.

Adding and removing cost the same however many clients there are: idle clients lie in the front part of one list, and a
client that leaves swaps places with the last of them. So does drawing one of many; cohorts and draws of the least
served look at all who are idle.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from asyncfl.server.client_statistics import ClientStatistics
from asyncfl.streams import RandomOrder

FEW = 1024
"""Where fewer than one in this many clients are idle, they are read from the list instead of looking at everybody."""


class Population:
    """The server's knowledge of its clients 0..n-1. At first nobody is idle."""

    def __init__(self, clients: int, samples: NDArray[np.int64] | None = None) -> None:
        """`samples`: (clients,) training samples of each client; None: all have one."""
        self.clients = clients
        self.statistics = ClientStatistics(np.ones(clients, dtype=np.int64) if samples is None else samples)
        """What the server has heard of them."""
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

    def draw(self, count: int, order: RandomOrder) -> list[int]:
        """The first `count` idle clients in `order`, or all of them where fewer are idle. They stop being idle."""
        drawn: list[int] = []
        if 0 < count < self._idle:
            for client in order.proposals(self.clients):
                if self.is_idle(client):
                    self.remove(client)
                    drawn.append(client)
                    if len(drawn) == count:
                        return drawn
        if self._idle == 1 and not drawn:
            # The usual case where clients are served as soon as they ask.
            drawn = self._order[:1] if count else []
            for client in drawn:
                self.remove(client)
            return drawn
        idle = self._idle_anyhow()
        return drawn + self._take(idle, order.ranks(idle), count - len(drawn))

    def draw_least_served(self, count: int, order: RandomOrder) -> list[int]:
        """`count` idle clients, those with the fewest tasks first and ties in `order`. They stop being idle."""
        idle = self._idle_anyhow()
        served = self.served[idle]
        if 0 < count < len(idle):
            # Only those who can be drawn need sorting: populations may be large, and few are drawn at a time.
            first = np.flatnonzero(served <= np.partition(served, count - 1)[count - 1])
            idle, served = idle[first], served[first]
        return self._take(idle, order.ranks(idle), count, served)

    def _idle_anyhow(self) -> NDArray[np.int64]:
        """The idle clients (n_idle,) in no order that means anything."""
        if self._idle * FEW < self.clients:
            return np.array(self._order[: self._idle], dtype=np.int64)
        return self.idle

    def _take(
        self, idle: NDArray[np.int64], ranks: NDArray[np.uint64], count: int, before: NDArray[np.int64] | None = None
    ) -> list[int]:
        """The `count` with the lowest `before`, then `ranks`, then number. They stop being idle."""
        if before is None and 0 < count < len(idle):
            first = np.flatnonzero(ranks <= np.partition(ranks, count - 1)[count - 1])
            idle, ranks = idle[first], ranks[first]
        keys = (idle, ranks) if before is None else (idle, ranks, before)
        drawn: list[int] = idle[np.lexsort(keys)[:count]].tolist()
        for client in drawn:
            self.remove(client)
        return drawn
