"""Alternating periods online and offline.

Periods are drawn lazily, one at a time, when they are needed. Each period has a random stream of its own, by client and
number of the period, so the draws do not depend on the order or number of calls.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from asyncfl.base.messages import Bools
from asyncfl.base.streams import Streams
from asyncfl.world.availability.pattern import Availability, ClientTraits, Presence, Variation
from asyncfl.world.distributions import Period
from asyncfl.world.keyed_stream import KeyedStream


class AlternatingAvailability(Availability):
    """Alternating periods online and offline, stationary from time 0."""

    kind: Literal["alternating"] = "alternating"
    on_s: Period
    """Length of a period online, seconds: a number or a distribution of finite mean > 0, drawn per period."""
    off_s: Period
    """Length of a period offline, seconds: a number or a distribution of finite mean > 0, drawn per period."""
    varies: Variation | None = None
    """Variation of the periods online between clients: a factor per client. null: factor 1 for all."""

    @property
    def online_share(self) -> float:
        """Long-run share of time that a client with factor 1 is online."""
        return self.on_s.expected() / (self.on_s.expected() + self.off_s.expected())

    @property
    def changes_per_s(self) -> float:
        return 2 / (self.on_s.expected() + self.off_s.expected())

    def start(self, traits: ClientTraits, streams: Streams) -> Presence:
        return AlternatingPresence(self, traits, streams)


class AlternatingPresence(Presence):
    """Current period of each client, as arrays.

    At time 0 a client is online with the long-run probability, and its first period lasts for a residual. Otherwise all
    clients would go offline at the same time at first.
    """

    def __init__(self, pattern: AlternatingAvailability, traits: ClientTraits, streams: Streams) -> None:
        self._pattern = pattern
        clients = traits.clients
        self._periods = KeyedStream(streams, "availability")
        coins = streams.generator("availability", number=0).random(clients)
        self._factor = np.ones(clients) if pattern.varies is None else pattern.varies.factors(traits, streams)
        on_left_s = self._factor * pattern.on_s.residual(streams.generator("availability", number=1), clients)
        off_left_s = pattern.off_s.residual(streams.generator("availability", number=2), clients)
        on_s = self._factor * pattern.on_s.expected()
        self._online = coins < on_s / (on_s + pattern.off_s.expected())
        self._until_s = np.where(self._online, on_left_s, off_left_s)
        self._period = np.zeros(clients, dtype=np.int64)

    def online(self, client: int, time_s: float) -> bool:
        self._advance(client, time_s)
        return bool(self._online[client])

    def next_change(self, client: int, time_s: float) -> float:
        self._advance(client, time_s)
        return float(self._until_s[client])

    def all_online(self, time_s: float) -> Bools:
        for client in np.flatnonzero(self._until_s <= time_s):
            self._advance(int(client), time_s)
        return self._online.copy()

    def _advance(self, client: int, time_s: float) -> None:
        """Draw the client's periods up to the one that contains `time_s`, and make it the current one."""
        if time_s < self._until_s[client]:
            return
        online, period, until_s = bool(self._online[client]), int(self._period[client]), float(self._until_s[client])
        while until_s <= time_s:
            online, period = not online, period + 1
            lengths = self._pattern.on_s if online else self._pattern.off_s
            length_s = lengths.draw_one(self._periods.at(client, period)) * (self._factor[client] if online else 1.0)
            # A period that is shorter than the resolution of floats at this time still ends after it begins.
            until_s = max(until_s + length_s, math.nextafter(until_s, math.inf))
        self._online[client], self._period[client], self._until_s[client] = online, period, until_s
