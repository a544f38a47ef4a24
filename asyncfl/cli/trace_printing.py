"""Printing for `asyncfl trace`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asyncfl.base.description import differing_fields
from asyncfl.base.quantities import quantity
from asyncfl.cli.output import console, format_number, print_json, print_table, rounded_difference

if TYPE_CHECKING:
    import pyarrow as pa

    from asyncfl.federation.storage import Run
    from asyncfl.trace.compare import Divergence, SeedComparison, TraceComparison
    from asyncfl.trace.follow import TaskHistory


def has_value(value: object) -> bool:
    """Return whether a cell holds a value: -1, NaN and empty texts mean none."""
    return value not in (-1, "") and value == value


def print_counts(events_by_kind: Mapping[str, int], *, json: bool) -> None:
    """Print a table of event kinds and their counts. `events_by_kind`: kind -> number of events."""
    print_json(events_by_kind) if json else print_table(["kind", "events"], list(events_by_kind.items()))


def print_rows(table: pa.Table, *, limit: int, json: bool, without: Sequence[str] = (), keys: int = 1) -> None:
    """Print the first `limit` rows (0: all) of a table, without columns that hold no value in them.

    keys: number of columns that identify a row.
    """
    shown = table.slice(0, limit) if limit else table
    rows = shown.to_pylist()
    if json:
        print_json(rows)
        return
    if not rows:
        console.print("no matching events or tasks")
        return
    columns = [name for name in shown.column_names if name not in without and any(has_value(row[name]) for row in rows)]
    print_table(columns, [[_cell(name, row[name]) for name in columns] for row in rows], keys=keys)
    if len(rows) < len(table):
        console.print(f"{len(table) - len(rows)} more rows; raise --limit, or filter")


def _cell(column: str, value: Any) -> Any:
    if not has_value(value):
        return None
    return quantity(value, "bytes") if column == "bytes" or column.endswith("_bytes") else value


def print_history(history: TaskHistory, *, json: bool) -> None:
    """Print the steps of one task, its fate, and the duration of each phase."""
    if json:
        print_json(dataclasses.asdict(history))
        return
    console.print(history.headline)
    console.print()
    began_s = history.steps[0].time_s
    rows = [[step.time_s, step.time_s - began_s, step.event, step.took_s, step.what] for step in history.steps]
    print_table(["time_s", "after_s", "event", "took_s", ""], rows)
    console.print()
    total = history.durations_s["total"]
    parts = [[name, seconds, f"{_share(seconds, total)} %"] for name, seconds in history.durations_s.items()]
    print_table(["phase", "seconds", "share"], parts)


def _share(part: float, total: float) -> str:
    return f"{100 * part / total:.1f}" if total else "—"


def print_comparison(one: Run, other: Run, names: tuple[str, str], seed: int | None, *, json: bool) -> bool:
    """Print where two runs differ; return whether they are the same."""
    from asyncfl.trace.compare import compare
    from asyncfl.trace.query import select

    tables = [run.tables[name] for name in ("events", "rounds") for run in (one, other)]
    if seed is not None:
        tables = [select(table, seed=seed) for table in tables]
    found = compare(*tables)
    scenarios = [run.description for run in (one, other)]
    differing = differing_fields(scenarios[0], scenarios[1])
    fields = [(name, _plain(mine), _plain(theirs)) for name, mine, theirs in differing]
    if json:
        described = [{"field": name, "one": mine, "other": theirs} for name, mine, theirs in fields]
        print_json({"same": found.same, "scenario": described, **dataclasses.asdict(found)})
        return found.same
    console.print(f"one: {names[0]}\nother: {names[1]}")
    if fields:
        console.print("\nscenarios differ in")
        print_table(["field", "one", "other"], fields)
    else:
        console.print("\nthe scenarios are the same")
    _print_seeds(found)
    if found.same:
        events = len(tables[0])
        seeds = "1 seed" if len(found.seeds) == 1 else f"{len(found.seeds)} seeds"
        console.print(f"\nno difference: the same {events} events and published numbers in {seeds}")
    return found.same


def _plain(value: Any) -> str:
    return "null" if value is None else format_number(value)


def _print_seeds(comparison: TraceComparison) -> None:
    """Print the seeds that only one run has, and the differences of the common seeds."""
    for which, seeds in (("one", comparison.only_one), ("other", comparison.only_other)):
        if seeds:
            console.print(f"\nonly {which} has seed {', '.join(map(str, seeds))}")
    for seed in comparison.seeds:
        if seed.same:
            continue
        beside = "" if seed.seed == seed.other_seed else f" beside seed {seed.other_seed}"
        console.print(f"\nseed {seed.seed}{beside}")
        _print_seed(seed)


def _print_seed(seed: SeedComparison) -> None:
    if seed.events is None:
        console.print("the same events")
    else:
        console.print(f"first different event: number {seed.events.row}{_place_of(seed.events)}")
        _print_divergence(seed.events)
    if seed.rounds is not None:
        versions = [int(rows[0]["version"]) for rows in (seed.rounds.one, seed.rounds.other) if rows]
        console.print(f"first different published numbers: version {min(versions)}{_place_of(seed.rounds)}")
    if seed.lines:
        rows = [[line.what, line.one, line.other, rounded_difference(line.one, line.other)] for line in seed.lines]
        print_table(["in sum", "one", "other", "change"], rows)
    if seed.changed_fates:
        console.print(f"{seed.changed_fates} tasks of both went to another client or had another fate")


def _place_of(divergence: Divergence) -> str:
    """Return the end of a line: the columns that differ, or which run has ended."""
    if not divergence.columns:
        return f", where {'one' if not divergence.one else 'other'} has ended"
    return f", in {', '.join(divergence.columns)}"


def _print_divergence(divergence: Divergence) -> None:
    """Print the events around a difference: common ones first, then those of each run."""
    rows = [("", row) for row in divergence.common]
    rows += [("one", row) for row in divergence.one] + [("other", row) for row in divergence.other]
    (_, first), *_ = rows
    columns = [name for name in first if name not in ("seq", "seed") and any(has_value(row[name]) for _, row in rows)]
    cells = [[which, *(row[name] if has_value(row[name]) else None for name in columns)] for which, row in rows]
    print_table(["", *columns], cells)
