"""Who got hold of which uploads and models of a seed, and when, from its events."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.trace import Kind
from asyncfl.trace.events import SCORING_DOWN
from asyncfl.trace.query import select

Times = dict[int, float]
"""Task or version -> virtual time at which somebody got it."""


class AdversaryHoldings(NamedTuple):
    """What one adversary holds."""

    uploads: Times
    models: Times


def holdings(events: pa.Table, published: Mapping[int, float]) -> dict[str, AdversaryHoldings]:
    """`eavesdropper`: what the tap caught; `server`: all that came, and its models; `both`: what either of them holds.

    published: version -> virtual time at which it was out.
    """
    tapped = AdversaryHoldings(
        first_times(overheard(events, "up", SCORING_DOWN), "task"),
        first_times(overheard(events, "down"), "base_version"),
    )
    server = AdversaryHoldings(first_times(select(events, kinds=[Kind.UPLOADED]), "task"), dict(published))
    both = AdversaryHoldings(*(_earliest(one, other) for one, other in zip(tapped, server, strict=True)))
    return {"eavesdropper": tapped, "server": server, "both": both}


def overheard(events: pa.Table, *ways: str, tasks: bool = True) -> pa.Table:
    """What the tap caught of these ways. `tasks`: of tasks alone, which messages of a request for scores are not."""
    caught = select(events, kinds=[Kind.OVERHEARD])
    if tasks:
        caught = caught.filter(pc.field("task") >= 0)
    return caught.filter(pc.is_in(caught["detail"].cast(pa.string()), pa.array(ways)))


def first_times(events: pa.Table, column: str) -> Times:
    """When each number in `column` first stands among the events."""
    found: Times = {}
    for number, time_s in zip(events[column].to_pylist(), events["time_s"].to_pylist(), strict=True):
        found.setdefault(number, time_s)
    return found


def _earliest(first: Times, second: Times) -> Times:
    numbers = first.keys() | second.keys()
    return {number: min(first.get(number, math.inf), second.get(number, math.inf)) for number in numbers}
