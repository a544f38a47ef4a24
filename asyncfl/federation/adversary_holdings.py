"""Which adversary holds which uploads and models of a seed, and since when, from the events."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

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
    events: pa.Table, published: Mapping[int, float], *, in_part: bool = False
) -> dict[str, AdversaryHoldings]:
    """Return the holdings of `eavesdropper` (overheard messages), `server` (arrived uploads and its models) and `both`.

    `published`: version -> virtual time of its publication. `in_part`: whether messages overheard in part count too: a
    bound on what they reveal, as a part of a release with noise on each coordinate reveals at most as much as all of
    it. An attack needs whole messages.
    """
    tapped = AdversaryHoldings(
        first_times(overheard(events, "up", SCORING_DOWN, in_part=in_part), "task"),
        first_times(overheard(events, "down", in_part=in_part), "base_version"),
    )
    server = AdversaryHoldings(first_times(select(events, kinds=[Kind.UPLOADED]), "task"), dict(published))
    both = AdversaryHoldings(*(_earliest(one, other) for one, other in zip(tapped, server, strict=True)))
    return {"eavesdropper": tapped, "server": server, "both": both}


def overheard(events: pa.Table, *ways: str, tasks: bool = True, in_part: bool = False) -> pa.Table:
    """Return the events of overheard messages. `ways`: `down`, `up`, or names of messages of requests for scores.

    `tasks`: only events that belong to a task. `in_part`: also those of messages overheard in part.
    """
    caught = select(events, kinds=CAUGHT if in_part else [Kind.OVERHEARD])
    if tasks:
        caught = caught.filter(pc.field("task") >= 0)
    return caught.filter(pc.is_in(caught["detail"].cast(pa.string()), pa.array(ways)))


def first_times(events: pa.Table, column: str) -> Times:
    """Return the time of the first event with each number in `column`."""
    found: Times = {}
    for number, time_s in zip(events[column].to_pylist(), events["time_s"].to_pylist(), strict=True):
        found.setdefault(number, time_s)
    return found


def _earliest(first: Times, second: Times) -> Times:
    numbers = first.keys() | second.keys()
    return {number: min(first.get(number, math.inf), second.get(number, math.inf)) for number in numbers}
