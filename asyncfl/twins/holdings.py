"""What each adversary of a seed holds of uploads and models, and since when."""

from __future__ import annotations

import math
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.federation import SeedRun
from asyncfl.trace import Kind
from asyncfl.trace.events import SCORING_DOWN
from asyncfl.trace.query import select

Times = dict[int, float]
"""Task or version -> virtual time at which somebody got it."""


class Holding(NamedTuple):
    """What one adversary holds."""

    uploads: Times
    models: Times


def holdings(run: SeedRun) -> dict[str, Holding]:
    """Adversary -> what it holds: the eavesdropper what the tap caught, the server all that came and its models."""
    uploaded = _times(select(run.events, kinds=[Kind.UPLOADED]), "task")
    tapped = Holding(
        _times(_overheard(run, "up", SCORING_DOWN), "task"), _times(_overheard(run, "down"), "base_version")
    )
    server = Holding(uploaded, {row["version"]: row["time_s"] for row in run.rounds})
    both = Holding(*(_earliest(one, other) for one, other in zip(tapped, server, strict=True)))
    return {"eavesdropper": tapped, "server": server, "both": both}


def _overheard(run: SeedRun, *ways: str) -> pa.Table:
    caught = select(run.events, kinds=[Kind.OVERHEARD])
    caught = caught.filter(pc.field("task") >= 0)  # messages of a request for scores are of no task
    return caught.filter(pc.is_in(caught["detail"].cast(pa.string()), pa.array(ways)))


def _times(events: pa.Table, column: str) -> Times:
    found: Times = {}
    for number, time_s in zip(events[column].to_pylist(), events["time_s"].to_pylist(), strict=True):
        found.setdefault(number, time_s)
    return found


def _earliest(first: Times, second: Times) -> Times:
    numbers = first.keys() | second.keys()
    return {number: min(first.get(number, math.inf), second.get(number, math.inf)) for number in numbers}
