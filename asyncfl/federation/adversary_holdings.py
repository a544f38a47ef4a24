"""Which adversary holds which uploads and models of a seed, and since when, from the events."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.trace import Kind
from asyncfl.trace.events import CAUGHT, SCORING_DOWN
from asyncfl.trace.query import select

Times = dict[int, float]
"""Task or version -> virtual time since when an adversary holds it."""


class AdversaryHoldings(NamedTuple):
    """Uploads and models that one adversary holds."""

    uploads: Times
    models: Times


def holdings(
    events: pa.Table, published: Mapping[int, float], *, packet_bytes: int | None = None
) -> dict[str, AdversaryHoldings]:
    """Return the holdings of `eavesdropper` (overheard messages), `server` (arrived uploads and its models) and `both`.

    `published`: version -> virtual time of its publication. `packet_bytes`: the largest packet of an upload, where
    messages overheard or received in part count too: a bound on what they reveal, as a part of a release with noise on
    each coordinate reveals at most as much as all of it. None: whole messages only, as an attack needs them.
    """
    in_part = packet_bytes is not None
    tapped = AdversaryHoldings(
        first_times(overheard(events, "up", SCORING_DOWN, in_part=in_part), "task"),
        first_times(overheard(events, "down", in_part=in_part), "base_version"),
    )
    arrived = select(events, kinds=[Kind.UPLOADED]) if packet_bytes is None else received(events, "up", packet_bytes)
    server = AdversaryHoldings(first_times(arrived, "task"), dict(published))
    both = AdversaryHoldings(*(_earliest(one, other) for one, other in zip(tapped, server, strict=True)))
    return {"eavesdropper": tapped, "server": server, "both": both}


def received(events: pa.Table, way: Literal["down", "up"], packet_bytes: int) -> pa.Table:
    """Return the events after which the receiver holds a message of a task, whole or in part.

    A message of several packets counts if it was lost or still in transfer when the run ended, since some may have
    arrived, and so does a message that broke off after a packet had left. `packet_bytes`: the largest packet.
    """
    whole = Kind.UPLOADED if way == "up" else Kind.DOWNLOADED
    uploads = select(events, kinds=[Kind.UPLOAD_STARTED])
    begun = uploads if way == "up" else select(events, kinds=[Kind.DOWNLOAD_STARTED])
    long = begun.filter(pc.field("bytes") > packet_bytes)
    ends = select(events, kinds=[whole, Kind.LOST, Kind.WENT_OFFLINE, Kind.DROPPED_OUT])
    kind, bytes_left = ends["kind"].cast(pa.string()), pc.greater(ends["bytes"], 0)
    # A client sends nothing but its update after its upload has begun.
    this_way = pc.equal(pc.is_in(ends["task"], uploads["task"]), way == "up")
    lost_whole = pc.and_(pc.equal(kind, Kind.LOST), pc.invert(pc.is_in(ends["task"], long["task"])))
    in_part = pc.and_(pc.and_(this_way, bytes_left), pc.invert(lost_whole))
    going_on = pc.less(long["time_s"], pc.max(events["time_s"]))
    in_transfer = long.filter(pc.and_(going_on, pc.invert(pc.is_in(long["task"], ends["task"]))))
    return pa.concat_tables([ends.filter(pc.or_(pc.equal(kind, whole), in_part)), in_transfer])


def overheard(events: pa.Table, *ways: str, tasks: bool = True, in_part: bool = False) -> pa.Table:
    """Return the events of overheard messages. `ways`: `down`, `up`, or names of messages of requests for scores.

    `tasks`: only events that belong to a task. `in_part`: also those of messages overheard in part.
    """
    caught = select(events, kinds=CAUGHT if in_part else [Kind.OVERHEARD])
    if tasks:
        caught = caught.filter(pc.field("task") >= 0)
    return caught.filter(pc.is_in(caught["detail"].cast(pa.string()), pa.array(ways)))


def sent_uploads(events: pa.Table, packet_bytes: int) -> pa.Table:
    """Return the events after which the server or the eavesdropper holds an upload, whole or in part.

    `packet_bytes`: as in `received`.
    """
    caught = overheard(events, "up", SCORING_DOWN, in_part=True)
    return pa.concat_tables([received(events, "up", packet_bytes), caught]).sort_by("seq")


def first_times(events: pa.Table, column: str) -> Times:
    """Return the time of the first event with each number in `column`."""
    found: Times = {}
    for number, time_s in zip(events[column].to_pylist(), events["time_s"].to_pylist(), strict=True):
        found.setdefault(number, time_s)
    return found


def _earliest(first: Times, second: Times) -> Times:
    numbers = first.keys() | second.keys()
    return {number: min(first.get(number, math.inf), second.get(number, math.inf)) for number in numbers}
