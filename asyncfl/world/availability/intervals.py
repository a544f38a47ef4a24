"""Measured availability: intervals online from a CSV file, one line each."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.errors import DataError, Fault
from asyncfl.base.messages import Floats, Ints
from asyncfl.base.streams import Streams
from asyncfl.world.availability.pattern import Availability, ClientTraits, Presence, ScheduledPresence
from asyncfl.world.profiles import MeasuredColumn, RowOrder, read_profile, rows_of


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
