"""Availability of clients: always online, in alternating periods, for some hours of their night, or as measured.

What a client draws depends on no other client's calls: periods and days have random streams of their own, and are drawn
lazily, when they are needed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from asyncfl.base.arrays import Bools, Floats, Ints
from asyncfl.base.component import Component, Described, choice
from asyncfl.base.errors import DataError, Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams
from asyncfl.world.distributions import Amount, Period, Uniform
from asyncfl.world.keyed_stream import KeyedStream
from asyncfl.world.profiles import MeasuredColumn, RowOrder, read_profile, rows_of

HOUR_S, DAY_S = 3600.0, 86400.0
SEARCH_DAYS = 1000  # days after which a client without a change is assumed to stay online, or offline, for ever
NIGHT = Uniform(low=21.0, high=24.0)

Zone = Annotated[float, Field(ge=-12, le=14)]


@dataclass(frozen=True)
class ClientTraits:
    """Properties of the clients that their availability may depend on."""

    s_per_sample: Floats  # (clients,) seconds of computation per sample and epoch
    samples: Ints | None = None  # (clients,) training samples of each client; None: unknown

    @property
    def clients(self) -> int:
        return int(self.s_per_sample.size)


class Presence(ABC):
    """Presence of the clients over time. Calls for one client must not go back to a period that is over."""

    @abstractmethod
    def online(self, client: int, time_s: float) -> bool:
        """Return whether the client is online at `time_s`. At a change, the new state holds."""

    @abstractmethod
    def next_change(self, client: int, time_s: float) -> float:
        """Return the next time after `time_s` at which the client goes offline or comes online, seconds; inf: never."""

    @abstractmethod
    def all_online(self, time_s: float) -> Bools:
        """Return for each client whether it is online at `time_s`, (clients,) bool."""


class Availability(Component):
    """Base class of the patterns of availability."""

    logged: ClassVar[tuple[str, ...]] = ("events.went_offline", "events.came_online")

    @property
    def changes_per_s(self) -> float:
        """Long-run rate at which a client goes offline or comes online, changes per second; 0 unless overridden."""
        return 0.0

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files that the pattern is read from. The digest of a run covers their contents."""
        return ()

    @abstractmethod
    def start(self, traits: ClientTraits, streams: Streams) -> Presence:
        """Draw and return the presence of clients from time 0 on. Raises DataError for a damaged file.

        `traits`: speeds and numbers of samples, on which availability may depend.
        """


class AlwaysOnline(Availability):
    """Clients that are always online."""

    kind: Literal["always"] = "always"

    def start(self, traits: ClientTraits, streams: Streams) -> Presence:
        return AlwaysPresent(traits.clients)


class AlwaysPresent(Presence):
    """Presence of clients that are online all the time."""

    def __init__(self, clients: int) -> None:
        self._clients = clients

    def online(self, client: int, time_s: float) -> bool:
        return True

    def next_change(self, client: int, time_s: float) -> float:
        return math.inf

    def all_online(self, time_s: float) -> Bools:
        return np.ones(self._clients, dtype=np.bool_)


class ScheduledPresence(Presence):
    """Clients that are online in windows [from_s, until_s), which are in order and do not touch."""

    def __init__(self, clients: int) -> None:
        self._clients = clients

    @abstractmethod
    def window(self, client: int, time_s: float) -> tuple[float, float]:
        """Return the client's first window that ends after `time_s`, (from_s, until_s); (inf, inf): there is none."""

    def online(self, client: int, time_s: float) -> bool:
        return self.window(client, time_s)[0] <= time_s

    def next_change(self, client: int, time_s: float) -> float:
        from_s, until_s = self.window(client, time_s)
        return until_s if from_s <= time_s else from_s

    def all_online(self, time_s: float) -> Bools:
        return np.array([self.online(client, time_s) for client in range(self._clients)], dtype=np.bool_)


class Variation(Described):
    """Lognormal factors of the clients, and their correlation with speed or number of samples.

    The factor of client i is exp(sigma z_i) with z_i = rho u_i + sqrt(1 - rho^2) e_i, where e_i is a standard normal
    draw and u_i = Phi^-1((rank - 1/2) / n) the normal score of the client's rank among n clients. For any distribution
    of speeds or sizes, z is approximately standard normal and has the correlation rho with the normal scores (a
    Gaussian copula).
    """

    sigma: Annotated[float, Field(ge=0, le=10, examples=[0.5]), MeasuredIn("1")]
    """Standard deviation of the natural logarithm of the factor, 0..10; its median is 1."""
    along: Literal["speed", "samples"] = "speed"
    """Property that the factor is correlated with: the computing speed, or the number of training samples."""
    correlation: Annotated[float, Field(ge=-1, le=1), MeasuredIn("1")] = 0.0
    """Correlation rho, -1..1. Above 0, fast clients or clients with many samples are online for longer."""

    def factors(self, traits: ClientTraits, streams: Streams) -> Floats:
        """Draw the factor of each client, (clients,) > 0. Equal speeds or sizes have equal ranks.

        Raises ValueError where the numbers of samples are needed but unknown.
        """
        ranked = -traits.s_per_sample if self.along == "speed" else traits.samples
        if ranked is None:
            raise ValueError("availability varies along samples: start the world with the samples of each client")
        # scipy takes as long to import as the rest of the package.
        from scipy.special import ndtri
        from scipy.stats import rankdata

        own = streams.generator("availability", number=3).standard_normal(traits.clients)
        scores = ndtri((rankdata(ranked) - 0.5) / traits.clients)
        z = self.correlation * scores + math.sqrt(1 - self.correlation**2) * own
        return np.asarray(np.exp(self.sigma * z), dtype=np.float64)


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


class DiurnalAvailability(Availability):
    """One period online per day, at local time.

    Phones take part while they are charging, idle and on an unmetered network, which is mostly at night (Yang et al.
    2018, "Applied federated learning: improving Google keyboard query suggestions", section 5). So a server sees one
    wave of clients per time zone.
    """

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


class CsvAvailability(Availability):
    """Measured intervals online from a CSV file with columns device, from_s and until_s."""

    kind: Literal["csv"] = "csv"
    path: Annotated[str, Field(examples=["intervals.csv"])]
    """Path of the file: a header line, then one line per interval in which a device (a number) was online, from
    `from_s` to `until_s` in seconds. Intervals of a device must not overlap."""
    rows: RowOrder = "drawn"
    """Assignment of devices to clients: `drawn` at random with replacement, or `in_order` of the devices' numbers."""
    repeats_after_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds after which all intervals repeat, e.g. a week, 604800. null: a client stays offline after its last
    interval."""

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def start(self, traits: ClientTraits, streams: Streams) -> Presence:
        devices = _read(self.path, self.repeats_after_s)
        drawn = streams.generator("availability", number=0)
        return IntervalPresence(devices, rows_of(traits.clients, len(devices), self.rows, drawn), self.repeats_after_s)


def _read(path: str, repeats_after_s: float | None) -> list[Floats]:
    """Read the intervals of each device in order of their numbers, (n, 2) starts and ends; touching ones are merged."""
    columns = (MeasuredColumn("device"), MeasuredColumn("from_s"), MeasuredColumn("until_s", positive=True))
    table = read_profile(path, columns, "world.availability.path")
    faults: list[Fault] = []
    devices = []
    for device in np.unique(table["device"]):
        own = np.flatnonzero(table["device"] == device)
        own = own[np.argsort(table["from_s"][own], kind="stable")]
        from_s, until_s = table["from_s"][own], table["until_s"][own]
        wrong = [
            f"until_s must be > from_s, got {begin:g} to {end:g}"
            for begin, end in zip(from_s, until_s, strict=True)
            if begin >= end
        ]
        wrong += [
            f"must be online once at a time, but one interval begins at {begin:g} s and another ends at {end:g} s"
            for end, begin in zip(until_s[:-1], from_s[1:], strict=True)
            if begin < end
        ]
        if repeats_after_s is not None and until_s.max() > repeats_after_s:
            wrong.append(f"must end by repeats_after_s ({repeats_after_s:g} s), got an interval to {until_s.max():g} s")
        faults += [Fault(f"device {device:g}", message) for message in wrong]
        apart = np.flatnonzero(from_s[1:] > until_s[:-1])
        devices.append(np.column_stack([from_s[np.r_[0, apart + 1]], until_s[np.r_[apart, len(own) - 1]]]))
    if faults:
        raise DataError(faults, path)
    return devices


class IntervalPresence(ScheduledPresence):
    """Measured intervals of the clients' devices, repeated where configured."""

    def __init__(self, devices: list[Floats], device_of: Ints, repeats_after_s: float | None) -> None:
        super().__init__(len(device_of))
        self._device_of = device_of
        self._from_s: list[list[float]] = [windows[:, 0].tolist() for windows in devices]
        self._until_s: list[list[float]] = [windows[:, 1].tolist() for windows in devices]
        self._period_s = repeats_after_s

    def window(self, client: int, time_s: float) -> tuple[float, float]:
        """Return the first interval of the client's device that ends after `time_s`, (from_s, until_s).

        Intervals that touch at the end of a repetition are merged.
        """
        device = int(self._device_of[client])
        froms, untils, period_s = self._from_s[device], self._until_s[device], self._period_s
        begun_s = 0.0 if period_s is None else math.floor(time_s / period_s) * period_s
        place = bisect_right(untils, time_s - begun_s)
        if period_s is None:
            return (froms[place], untils[place]) if place < len(untils) else (math.inf, math.inf)
        if place == len(untils):
            place, begun_s = 0, begun_s + period_s
        around = froms[0] == 0 and untils[-1] == period_s
        if around and len(froms) == 1:
            return 0.0, math.inf
        from_s, until_s = begun_s + froms[place], begun_s + untils[place]
        if around and place == len(untils) - 1:
            return from_s, begun_s + period_s + untils[0]
        if around and place == 0 and begun_s:
            return begun_s - period_s + froms[-1], until_s
        return from_s, until_s


if TYPE_CHECKING:
    AnyAvailability = Availability
else:
    AnyAvailability: Any = choice(
        Availability, AlwaysOnline, AlternatingAvailability, DiurnalAvailability, CsvAvailability
    )
