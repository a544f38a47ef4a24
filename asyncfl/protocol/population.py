"""Which clients the server may ask: idle, busy, banned, or with a spent privacy budget.

Clients are drawn in a random order of their numbers that does not depend on which are idle (`RandomOrder`): the first
idle clients in that order are drawn. If one client more or less is idle, the other drawn clients stay the same, except
for the one that it replaces or that replaces it. Idle clients are in the front part of one list, and a client that is
removed swaps places with the last of them, so that adding, removing and drawing one take constant time.
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.streams import RandomOrder

FEW = 1024
"""If fewer than one in this many clients are idle, idle clients are read from the list instead of scanning all
clients."""
MANY = 64
"""If more than one in this many clients can be drawn (and more than `FEW`), they are found by drawing numbers of all,
else by ranking those that can be drawn."""


class ClientStatistics:
    """Last loss, duration and version of each client. Losses are as reported by clients: neither noised nor checked."""

    def __init__(self, samples: NDArray[np.int64]) -> None:
        """`samples`: (clients,) training samples of each client; read when needed, since clients may join."""
        self.samples = samples
        self.losses = np.full(len(samples), np.nan)
        """(clients,) mean training loss of each client's last collected update; NaN before the first."""
        self.durations_s = np.full(len(samples), np.nan)
        """(clients,) seconds from dispatch to arrival of each client's last task that arrived; NaN before the first."""
        self.versions = np.zeros(len(samples), dtype=np.int64)
        """(clients,) version into which each client's last collected update was aggregated."""
        self.version = 0
        """The newest version."""

    def collected(self, clients: NDArray[np.int64], losses: NDArray[np.float64]) -> None:
        """Record the losses of updates collected for the next version. `clients`, `losses`: (n,); losses that are not
        finite are ignored."""
        known = np.isfinite(losses)
        self.losses[clients[known]] = losses[known]
        self.versions[clients[known]] = self.version + 1


class Population:
    """The clients 0..n-1 as the server knows them. Initially none is idle."""

    def __init__(self, clients: int, samples: NDArray[np.int64] | None = None) -> None:
        """`samples`: (clients,) training samples of each client; None for one each."""
        self.clients = clients
        self.statistics = ClientStatistics(np.ones(clients, dtype=np.int64) if samples is None else samples)
        """Losses, durations and versions reported by clients."""
        # Not NumPy's arrays: they are read and written one entry at a time.
        self._order = array("q", range(clients))
        self._place = array("q", range(clients))
        self._idle = 0
        self._asks = np.zeros(clients, dtype=bool)
        self.banned: set[int] = set()
        self.spent: set[int] = set()
        """Clients that take no task any more because their privacy budget is spent."""
        self.exhausted: set[int] = set()
        """Clients that have taken part as often as they may (`Protocol.max_participations`)."""
        self.excluded: set[int] = set()
        """Banned, spent and exhausted clients, which are never asked again."""
        self.served = np.zeros(clients, dtype=np.int64)
        """(clients,) number of tasks that each client has been given; changes only while the client is not idle."""
        self._levels: dict[int, list[int]] | None = None
        """Number of tasks -> idle clients that were given as many, in arbitrary order; None until it is needed."""
        self._slots: list[int] = []
        """Client -> its place in its level."""

    def __len__(self) -> int:
        """Return the number of idle clients."""
        return self._idle

    def is_idle(self, client: int) -> bool:
        """Whether the client can be given a task."""
        return self._place[client] < self._idle

    @property
    def idle(self) -> NDArray[np.int64]:
        """(n_idle,) numbers of the idle clients, ascending."""
        return np.flatnonzero(self._asks)

    def add(self, client: int) -> None:
        """Mark `client` as idle. No effect if it is idle already or excluded."""
        if client not in self.excluded and self._place[client] >= self._idle:
            self._swap(client, self._idle)
            self._idle += 1
            self._asks[client] = True
            if self._levels is not None:
                self._enter_level(self._levels, client)

    def add_all(self) -> None:
        """Mark all clients as idle that are neither banned nor spent."""
        if self.excluded:
            for client in range(self.clients):
                self.add(client)
        else:
            self._idle = self.clients
            self._asks[:] = True
            self._levels = None

    def remove(self, client: int) -> None:
        """Mark `client` as not idle."""
        if self._place[client] < self._idle:
            if self._levels is not None:
                self._leave_level(self._levels, client)
            self._idle -= 1
            self._asks[client] = False
            self._swap(client, self._idle)

    def ban(self, client: int) -> None:
        """Mark `client` as banned: it is never idle again."""
        self.remove(client)
        self.banned.add(client)
        self.excluded.add(client)

    def retire(self, client: int) -> None:
        """Mark the budget of `client` as spent: it is never idle again."""
        self.remove(client)
        self.spent.add(client)
        self.excluded.add(client)

    def exhaust(self, client: int) -> None:
        """Mark that `client` has taken part as often as it may: it is never idle again."""
        self.remove(client)
        self.exhausted.add(client)
        self.excluded.add(client)

    @property
    def why_none_left(self) -> str | None:
        """Reason why no client will be idle again; None if one may be."""
        if len(self.excluded) < self.clients:
            return None
        if len(self.banned) == self.clients:
            return "every client is banned"
        if len(self.spent) == self.clients:
            return "every client has spent its budget"
        if self.exhausted:
            others = ", is banned or has spent its budget" if self.banned or self.spent else ""
            return f"every client has taken part as often as it may{others}"
        return "every client is banned or has spent its budget"

    def _swap(self, client: int, place: int) -> None:
        old, other = self._place[client], self._order[place]
        self._order[old], self._order[place] = other, client
        self._place[other], self._place[client] = old, place

    def draw(self, count: int, order: RandomOrder) -> list[int]:
        """Draw the first `count` idle clients in `order`, or all idle clients if they are fewer, and return their
        numbers. Drawn clients are no longer idle."""
        if count == 1 < self._idle and self._place[client := order.proposal(self.clients)] < self._idle:
            self.remove(client)
            return [client]
        drawn: list[int] = []
        if 0 < count < self._idle:
            for client in order.proposals(self.clients):
                if self.is_idle(client):
                    self.remove(client)
                    drawn.append(client)
                    if len(drawn) == count:
                        return drawn
        if self._idle == 1 and not drawn and count:
            # The usual case if each client is given a task as soon as it is idle.
            drawn = [self._order[0]]
            self.remove(drawn[0])
            return drawn
        idle = self._idle_unordered()
        return drawn + self._take(idle, order.ranks(idle), count - len(drawn))

    def draw_least_served(self, count: int, order: RandomOrder) -> list[int]:
        """Draw `count` idle clients with the fewest tasks, ties in `order`, and return their numbers. Drawn clients are
        no longer idle."""
        drawn: list[int] = []
        levels = self._served_levels()
        while levels and (missing := count - len(drawn)) > 0:
            least = min(levels)
            if max(missing, self.clients // MANY, FEW) < len(levels[least]):
                for client in order.proposals(self.clients):
                    if self.is_idle(client) and self.served[client] == least:
                        self.remove(client)
                        drawn.append(client)
                        if len(drawn) == count:
                            return drawn
            idle = np.array(levels[least], dtype=np.int64)
            drawn += self._take(idle, order.ranks(idle), count - len(drawn))
        return drawn

    def _served_levels(self) -> dict[int, list[int]]:
        """Return the idle clients by their number of tasks. They are sorted once, and then moved one at a time."""
        if self._levels is None:
            self._levels, self._slots = {}, [0] * self.clients
            for client in self.idle.tolist():
                self._enter_level(self._levels, client)
        return self._levels

    def _enter_level(self, levels: dict[int, list[int]], client: int) -> None:
        level = levels.setdefault(int(self.served[client]), [])
        self._slots[client] = len(level)
        level.append(client)

    def _leave_level(self, levels: dict[int, list[int]], client: int) -> None:
        level = levels[served := int(self.served[client])]
        slot, last = self._slots[client], level.pop()
        if last != client:
            level[slot], self._slots[last] = last, slot
        elif not level:
            del levels[served]

    def _idle_unordered(self) -> NDArray[np.int64]:
        """Return the idle clients (n_idle,) in arbitrary order."""
        if self._idle * FEW < self.clients:
            return np.array(self._order[: self._idle], dtype=np.int64)
        return self.idle

    def _take(self, idle: NDArray[np.int64], ranks: NDArray[np.uint64], count: int) -> list[int]:
        """Return the `count` clients of `idle` (n,) lowest by `ranks` (n,), then by number. They are no longer idle."""
        if 0 < count < len(idle):
            first = np.flatnonzero(ranks <= np.partition(ranks, count - 1)[count - 1])
            idle, ranks = idle[first], ranks[first]
        drawn: list[int] = idle[np.lexsort((idle, ranks))[:count]].tolist()
        for client in drawn:
            self.remove(client)
        return drawn
