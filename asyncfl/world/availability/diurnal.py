"""Diurnal availability: clients that are online for some hours of their night, in different time zones.

Phones take part while they are charging, idle and on an unmetered network, which is mostly at night (Yang et al. 2018,
"Applied federated learning: improving Google keyboard query suggestions", section 5). So a server sees one wave of
clients per time zone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams
from asyncfl.world.availability.pattern import Availability, ClientTraits, Presence, ScheduledPresence, Variation
from asyncfl.world.distributions import Amount, Period, Uniform
from asyncfl.world.keyed_stream import KeyedStream

HOUR_S, DAY_S = 3600.0, 86400.0
SEARCH_DAYS = 1000
"""Days after which a client without a change is assumed to stay online, or offline, for ever."""
NIGHT = Uniform(low=21.0, high=24.0)

Zone = Annotated[float, Field(ge=-12, le=14)]


class DiurnalAvailability(Availability):
    """One period online per day, at local time."""

    kind: Literal["diurnal"] = "diurnal"
    from_h: Amount = NIGHT
    """Local hour at which a client comes online: a number or a distribution, drawn per client and day. 24 is the next
    midnight; values above 48 count as 48."""
    hours: Period
    """Hours that a client stays online: a number or a distribution of finite mean > 0, drawn per client and day. Values
    above 24 count as 24."""
    zones_h: Annotated[tuple[Zone, ...], Field(min_length=1)] = (0.0,)
    """Time zones of the clients, hours ahead of UTC, -12..14. Each client is in one of them."""
    shares: Annotated[tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...], MeasuredIn("relative")] | None = (
        None
    )
    """Relative numbers of clients in the zones. null: equal numbers."""
    starts_at_h: Annotated[float, Field(ge=0, lt=24)] = 0.0
    """UTC hour at which the run starts."""
    varies: Variation | None = None
    """Variation of the hours online between clients: a factor per client. null: factor 1 for all."""

    @model_validator(mode="after")
    def _shares_of_zones(self) -> Self:
        if self.shares is not None and (len(self.shares) != len(self.zones_h) or not sum(self.shares)):
            raise PydanticCustomError(
                "diurnal",
                "shares must be one number for each of zones_h ({zones}), not all 0, got {got}",
                {"zones": len(self.zones_h), "got": len(self.shares)},
            )
        return self

    @property
    def changes_per_s(self) -> float:
        return 2 / DAY_S

    def start(self, traits: ClientTraits, streams: Streams) -> Presence:
        return DiurnalPresence(self, traits, streams)


class DiurnalPresence(ScheduledPresence):
    """One window per client and day, drawn when needed from a random stream of the client and day."""

    def __init__(self, pattern: DiurnalAvailability, traits: ClientTraits, streams: Streams) -> None:
        super().__init__(traits.clients)
        self._pattern = pattern
        self._days = KeyedStream(streams, "availability")
        shares = np.ones(len(pattern.zones_h)) if pattern.shares is None else np.array(pattern.shares)
        coins = streams.generator("availability", number=0).random(traits.clients)
        zones = np.searchsorted(np.cumsum(shares) / shares.sum(), coins, side="right")
        zone_h = np.array(pattern.zones_h)[np.minimum(zones, len(shares) - 1)]
        # Added to virtual seconds this gives local time since a midnight two to three days before the start of the run,
        # whose window may still be open at the start.
        self._ahead_s = (72 + pattern.starts_at_h + zone_h) * HOUR_S
        self._factor = np.ones(traits.clients) if pattern.varies is None else pattern.varies.factors(traits, streams)
        self._last: dict[int, tuple[float, float, float]] = {}

    def window(self, client: int, time_s: float) -> tuple[float, float]:
        """Return the client's first window that ends after `time_s`, (from_s, until_s).

        It is the window of one day, merged with windows of the following days that overlap or touch it.
        """
        asked_s, from_s, until_s = self._last.get(client, (math.inf, 0.0, 0.0))
        if asked_s <= time_s < until_s:
            return from_s, until_s
        ahead_s = float(self._ahead_s[client])
        # A window begins at most two days after the midnight of its day and ends a day later.
        first = max(0, math.floor((time_s + ahead_s) / DAY_S) - 3)
        from_s = until_s = -math.inf
        for begins_s, ends_s in self._windows(client, first):
            if begins_s - ahead_s <= until_s:
                until_s = max(until_s, ends_s - ahead_s)
            elif until_s > time_s:
                break
            else:
                from_s, until_s = begins_s - ahead_s, ends_s - ahead_s
        else:
            if until_s <= time_s:
                from_s = math.inf
            if until_s <= time_s or until_s + ahead_s >= (first + SEARCH_DAYS - 1) * DAY_S:
                until_s = math.inf
        found = (from_s, until_s)
        self._last[client] = (time_s, *found)
        return found

    def _windows(self, client: int, first: int) -> Iterator[tuple[float, float]]:
        """Yield the windows (start, end) of the days from `first` on, local seconds, in order, without empty ones."""
        for day in range(first, first + SEARCH_DAYS):
            rng = self._days.at(client, day)
            from_h, hours = self._pattern.from_h.draw_one(rng), self._pattern.hours.draw_one(rng)
            length_s = min(24.0, hours * float(self._factor[client])) * HOUR_S
            begins_s = day * DAY_S + min(from_h, 48.0) * HOUR_S
            if length_s:
                yield begins_s, begins_s + length_s
