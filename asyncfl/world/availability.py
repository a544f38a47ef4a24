"""When clients are online: always, or in alternating periods on and off.

Periods are drawn lazily, one at a time, when somebody asks about a client. Each has a stream of its own, named by
client and period, so what is drawn does not depend on who else is asked about, or how often.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.component import Component, choice
from asyncfl.streams import Streams
from asyncfl.world.distributions import Period
from asyncfl.world.keyed_stream import KeyedStream


class Presence(ABC):
    """Who is online. Time only moves on: a client may not be asked about a period that is over."""

    @abstractmethod
    def online(self, client: int, time_s: float) -> bool:
        """Whether the client is online at that moment. At a change, the new state holds."""
        raise NotImplementedError

    @abstractmethod
    def next_change(self, client: int, time_s: float) -> float:
        """Moment after `time_s` at which the client goes offline or comes online, seconds; inf for never."""
        raise NotImplementedError

    @abstractmethod
    def all_online(self, time_s: float) -> NDArray[np.bool_]:
        """Whether each client is online at that moment, (clients,) bool."""
        raise NotImplementedError


class Availability(Component):
    """Base of the patterns of availability."""

    @property
    def changes_per_s(self) -> float:
        """How often a client goes offline or comes online, per second in the long run."""
        return 0.0

    @abstractmethod
    def start(self, clients: int, streams: Streams) -> Presence:
        """Who is online from time 0 on."""
        raise NotImplementedError


class AlwaysOnline(Availability):
    """Every client is always online."""

    kind: Literal["always"] = "always"

    def start(self, clients: int, streams: Streams) -> Presence:
        """Everybody; draws nothing."""
        return Everybody(clients)


class AlternatingAvailability(Availability):
    """Each client is on for a time, off for a time, and so on, stationary from time 0."""

    kind: Literal["alternating"] = "alternating"
    on_s: Period
    """Seconds that a client stays online: a number or a distribution of finite mean > 0, drawn per period."""
    off_s: Period
    """Seconds that a client stays offline: a number or a distribution of finite mean > 0, drawn per period."""

    @property
    def online_share(self) -> float:
        """Long-run share of time that a client is online."""
        return self.on_s.expected() / (self.on_s.expected() + self.off_s.expected())

    @property
    def changes_per_s(self) -> float:
        """Two in each period of being on and off."""
        return 2 / (self.on_s.expected() + self.off_s.expected())

    def start(self, clients: int, streams: Streams) -> Presence:
        """Clients in the midst of their periods."""
        return AlternatingPresence(self, clients, streams)


class Everybody(Presence):
    """All clients, all the time."""

    def __init__(self, clients: int) -> None:
        self._clients = clients

    def online(self, client: int, time_s: float) -> bool:
        """Yes."""
        return True

    def next_change(self, client: int, time_s: float) -> float:
        """Never."""
        return math.inf

    def all_online(self, time_s: float) -> NDArray[np.bool_]:
        """All."""
        return np.ones(self._clients, dtype=np.bool_)


class AlternatingPresence(Presence):
    """The period that each client is in, as rows of arrays.

    At time 0 a client is online with the long-run share, and what is left of its first period is a residual: without
    that, all clients would go offline together at first.
    """

    def __init__(self, pattern: AlternatingAvailability, clients: int, streams: Streams) -> None:
        self._pattern = pattern
        self._periods = KeyedStream(streams, "availability")
        coins = streams.generator("availability", number=0).random(clients)
        on_left_s = pattern.on_s.residual(streams.generator("availability", number=1), clients)
        off_left_s = pattern.off_s.residual(streams.generator("availability", number=2), clients)
        self._online = coins < pattern.online_share
        self._since_s = np.zeros(clients)
        self._until_s = np.where(self._online, on_left_s, off_left_s)
        self._period = np.zeros(clients, dtype=np.int64)

    def online(self, client: int, time_s: float) -> bool:
        """Whether the client is online. Raises ValueError for a time before its current period."""
        self._move_on(client, time_s)
        return bool(self._online[client])

    def next_change(self, client: int, time_s: float) -> float:
        """End of the client's period. Raises ValueError for a time before its current period."""
        self._move_on(client, time_s)
        return float(self._until_s[client])

    def all_online(self, time_s: float) -> NDArray[np.bool_]:
        """Whether each client is online; only those whose period is over cost a draw.

        Raises ValueError for a time before the current period of any client.
        """
        if self._since_s.size and time_s < self._since_s.max():
            raise ValueError(_backwards(time_s, float(self._since_s.max())))
        for client in np.flatnonzero(self._until_s <= time_s):
            self._move_on(int(client), time_s)
        return self._online.copy()

    def _move_on(self, client: int, time_s: float) -> None:
        if not 0 <= client < self._online.size:
            raise ValueError(f"client must be 0..{self._online.size - 1}, got {client}")
        if not self._since_s[client] <= time_s < math.inf:
            raise ValueError(_backwards(time_s, float(self._since_s[client])))
        if time_s < self._until_s[client]:
            return
        online, period = bool(self._online[client]), int(self._period[client])
        since_s = until_s = float(self._until_s[client])
        while until_s <= time_s:
            online, period, since_s = not online, period + 1, until_s
            lengths = self._pattern.on_s if online else self._pattern.off_s
            length_s = lengths.one(self._periods.at(client, period))
            # A period too short to be told from none at this time still ends after it begins.
            until_s = max(since_s + length_s, math.nextafter(since_s, math.inf))
        self._online[client], self._period[client] = online, period
        self._since_s[client], self._until_s[client] = since_s, until_s


def _backwards(time_s: float, since_s: float) -> str:
    return f"time_s must be finite and >= {since_s}, where the period now known began, got {time_s}"


if TYPE_CHECKING:
    AnyAvailability = Availability
else:
    AnyAvailability: Any = choice(Availability, AlwaysOnline, AlternatingAvailability)
