"""Two runs beside each other: how their scenarios differ, and where what happened first does."""

from __future__ import annotations

import math
from typing import Any

from asyncfl.base.description import differing_fields
from asyncfl.federation.storage import Run
from asyncfl.trace.compare import Divergence, SeedComparison, TraceComparison, compare

Described = dict[str, Any]


def comparison_shown(one: Run, other: Run) -> Described:
    """Fields in which the scenarios differ, with both values, and for each seed the first difference and the sums."""
    found = compare(one.tables["events"], other.tables["events"], one.tables["rounds"], other.tables["rounds"])
    fields = differing_fields(one.description, other.description)
    return {
        "same": found.same,
        "fields": [[name, *(_text(value) for value in values)] for name, *values in fields],
        "seeds": [_seed(seed) for seed in found.seeds],
        "only": _only(found),
    }


def _only(found: TraceComparison) -> list[str]:
    both = (("first", found.only_one), ("second", found.only_other))
    return [f"only the {which} run has seed {', '.join(map(str, seeds))}" for which, seeds in both if seeds]


def _seed(found: SeedComparison) -> Described:
    at_s = [rows[0]["time_s"] for rows in (found.events.one, found.events.other) if rows] if found.events else []
    return {
        "seed": found.seed,
        "other_seed": found.other_seed,
        # In microseconds, as all times of a page.
        "first": round(min(at_s) * 1e6) if at_s else None,
        "said": list(_said(found)),
        "events": [] if found.events is None else _around(found.events),
        "lines": [[line.what, *map(_number, (line.one, line.other, line.other - line.one))] for line in found.lines],
    }


def _said(found: SeedComparison) -> Any:
    if found.same:
        yield "the same events and the same published numbers"
        return
    if found.events is None:
        yield "the same events"
    else:
        yield f"first different event: number {found.events.row}{_in(found.events)}"
    if found.rounds is not None:
        versions = [int(rows[0]["version"]) for rows in (found.rounds.one, found.rounds.other) if rows]
        yield f"first different published numbers: version {min(versions)}{_in(found.rounds)}"
    if found.changed_fates:
        yield f"{found.changed_fates} tasks of both went to another client or met another fate"


def _in(divergence: Divergence) -> str:
    if not divergence.columns:
        return f", where the {'first' if not divergence.one else 'second'} run has ended"
    return f", in {', '.join(divergence.columns)}"


def _around(divergence: Divergence) -> list[list[str]]:
    """The events around a difference: a row of names, then common ones, those of the first run, of the second."""
    rows = [("both", row) for row in divergence.common]
    rows += [("first", row) for row in divergence.one] + [("second", row) for row in divergence.other]
    (_, first), *_ = rows
    names = [name for name in first if name not in ("seq", "seed") and any(_cell(row[name]) for _, row in rows)]
    return [["run", *names], *([which, *(_cell(row[name]) for name in names)] for which, row in rows)]


def _cell(value: object) -> str:
    """A value of an event for reading; one that means nothing there is empty."""
    return "" if value in (-1, "") or value != value else _text(value)


def _text(value: object) -> str:
    return "null" if value is None else _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.7g}"
