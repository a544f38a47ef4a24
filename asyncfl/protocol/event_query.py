"""Selection and counts of the events of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def select(
    events: pa.Table,
    *,
    clients: Sequence[int] | None = None,
    kinds: Sequence[str] | None = None,
    task: int | None = None,
    version: int | None = None,
    seed: int | None = None,
    since_s: float | None = None,
    until_s: float | None = None,
) -> pa.Table:
    """Return the events that meet every given condition, in order. Times are virtual seconds, both ends included.

    `kinds`: see `Kind`. `version`: latest published version at the time of the event.
    """
    if clients:
        events = events.filter(pc.field("client").isin(list(clients)))
    if kinds:
        events = events.filter(pa.chunked_array([_is_of(chunk, kinds) for chunk in events["kind"].chunks], pa.bool_()))
    for name, value in (("task", task), ("version", version), ("seed", seed)):
        if value is not None:
            events = events.filter(pc.field(name) == value)
    if since_s is not None:
        events = events.filter(pc.field("time_s") >= since_s)
    return events if until_s is None else events.filter(pc.field("time_s") <= until_s)


def _is_of(kinds: pa.DictionaryArray, wanted: Sequence[str]) -> pa.BooleanArray:
    """Return whether each of `kinds` is `wanted`, by its code: as texts they would take much memory."""
    codes = [code for code, kind in enumerate(kinds.dictionary.to_pylist()) if kind in wanted]
    return pc.is_in(kinds.indices, pa.array(codes, kinds.indices.type))


def value_of(cell: Any) -> Any:
    """Return the value of a cell; None for -1, NaN and empty texts, which mean none."""
    return None if cell in (-1, "") or cell != cell else cell


def end_of(events: pa.Table) -> float:
    """Return the time of the last event, in virtual seconds; 0 without events."""
    return float(pc.max(events["time_s"]).as_py() or 0.0)


def counts(events: pa.Table) -> dict[str, int]:
    """Return kind -> number of its events, the most frequent kind first."""
    found = events["kind"].cast(pa.string()).value_counts().to_pylist()
    return {row["values"]: row["counts"] for row in sorted(found, key=lambda row: (-row["counts"], row["values"]))}
