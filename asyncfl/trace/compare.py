"""Comparison of two traces: their first difference, and the quantities that differ.

The same scenario and seed give the same trace, bit by bit, on the same machine. So the first different event shows the
first effect of a change; all later differences may follow from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.trace.events import SCHEMA, Kind
from asyncfl.trace.query import counts
from asyncfl.trace.tasks import FATES, Tasks, tasks_of

CONTENT = tuple(name for name in SCHEMA.names if name not in ("seq", "seed"))
"""Columns that are compared: all but the position in the trace."""

CONTEXT = 3
"""Number of common events before a difference, and of events of each trace from there on, that are shown."""


@dataclass(frozen=True)
class Divergence:
    """First row in which two tables differ."""

    row: int
    """Index of the row from 0; the length of the shorter table where the longer one begins with it."""
    columns: tuple[str, ...]
    """Columns that differ in the row; () where one table has ended."""
    common: tuple[dict[str, Any], ...]
    """Last rows before it, common to both tables."""
    one: tuple[dict[str, Any], ...]
    """Row and following rows of the first table."""
    other: tuple[dict[str, Any], ...]
    """Row and following rows of the second table."""


@dataclass(frozen=True)
class ComparedQuantity:
    """A quantity in both traces."""

    what: str
    """Name of the quantity, e.g. `mean staleness`."""
    one: float
    """Its value in the first trace."""
    other: float
    """Its value in the second trace."""


@dataclass(frozen=True)
class SeedComparison:
    """Comparison of one seed of both runs."""

    seed: int
    other_seed: int
    """Seed of the second run: the same, unless each run has a single seed."""
    events: Divergence | None
    """First different event; None: all events are equal."""
    rounds: Divergence | None
    """First published version with different numbers; None: there is none."""
    lines: tuple[ComparedQuantity, ...]
    """Quantities that differ; () where both traces are equal."""
    changed_fates: int
    """Number of tasks in both traces that have another client or fate."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.events is None and self.rounds is None


@dataclass(frozen=True)
class TraceComparison:
    """Comparison of two runs."""

    seeds: tuple[SeedComparison, ...]
    only_one: tuple[int, ...]
    """Seeds of the first run only."""
    only_other: tuple[int, ...]
    """Seeds of the second run only."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.only_one and not self.only_other and all(seed.same for seed in self.seeds)


def compare(events: pa.Table, other: pa.Table, rounds: pa.Table, other_rounds: pa.Table) -> TraceComparison:
    """Compare two runs by their tables of events and of rounds, and return the differences.

    Each seed is compared with the same seed of the other run. Where each run has a single seed, these are compared.
    """
    mine, theirs = (sorted(table["seed"].unique().to_pylist()) for table in (events, other))
    pairs = [(seed, seed) for seed in mine if seed in theirs]
    if not pairs and len(mine) == len(theirs) == 1:
        pairs = [(mine[0], theirs[0])]
    return TraceComparison(
        seeds=tuple(
            _compare_seed(
                (_of(events, one), _of(other, two)), (_of(rounds, one), _of(other_rounds, two)), (int(one), int(two))
            )
            for one, two in pairs
        ),
        only_one=tuple(seed for seed in mine if seed not in {one for one, _ in pairs}),
        only_other=tuple(seed for seed in theirs if seed not in {two for _, two in pairs}),
    )


def divergence(one: pa.Table, other: pa.Table, columns: Sequence[str], context: int = CONTEXT) -> Divergence | None:
    """Return the first row in which two tables differ in `columns`; None: they are equal. NaN equals NaN.

    context: number of common rows before it, and of rows of each table from there on, to include.
    """
    rows = min(len(one), len(other))
    first, differing = rows, {}
    for name in columns:
        mask = _differs(one[name].slice(0, rows), other[name].slice(0, rows))
        if mask.any():
            place = int(np.argmax(mask))
            differing[name] = place
            first = min(first, place)
    if first == rows and len(one) == len(other):
        return None
    return Divergence(
        row=first,
        columns=tuple(name for name, place in differing.items() if place == first),
        common=tuple(one.slice(max(first - context, 0), min(first, context)).to_pylist()),
        one=tuple(one.slice(first, context).to_pylist()),
        other=tuple(other.slice(first, context).to_pylist()),
    )


def _of(table: pa.Table, seed: int) -> pa.Table:
    return table.filter(pc.field("seed") == seed)


def _differs(one: pa.ChunkedArray, other: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return for each row whether two columns differ, (rows,). NaN equals NaN."""
    if pa.types.is_dictionary(one.type):
        one, other = one.cast(pa.string()), other.cast(pa.string())
    mask: np.ndarray[Any, np.dtype[np.bool_]] = pc.not_equal(one, other).to_numpy()
    if pa.types.is_floating(one.type):
        mask = mask & ~(np.isnan(one.to_numpy()) & np.isnan(other.to_numpy()))
    return mask


def _compare_seed(
    events: tuple[pa.Table, pa.Table], rounds: tuple[pa.Table, pa.Table], seeds: tuple[int, int]
) -> SeedComparison:
    """Compare one seed. Each pair holds the first run's table or seed and the second's."""
    # Runs of different versions of this program may have different columns: only common columns are compared.
    numbers = [name for name in rounds[0].column_names if name in rounds[1].column_names and name != "seed"]
    apart, published = divergence(*events, CONTENT), divergence(*rounds, numbers)
    if apart is None and published is None:
        return SeedComparison(*seeds, None, None, (), 0)
    one, other = (tasks_of(table) for table in events)
    lines = tuple(_lines(events, rounds, (one, other)))
    return SeedComparison(*seeds, apart, published, lines, _changed_fates(one, other))


def _lines(
    events: tuple[pa.Table, pa.Table], rounds: tuple[pa.Table, pa.Table], tasks: tuple[Tasks, Tasks]
) -> list[ComparedQuantity]:
    """Return the totals and means (events, fates, staleness, last metrics) in which the two traces differ.

    Each pair holds the tables of the first and of the second trace.
    """
    kinds = [counts(table) for table in events]
    lines = [ComparedQuantity("events", *(len(table) for table in events))]
    lines += [ComparedQuantity("virtual seconds", *(float(pc.max(table["time_s"]).as_py() or 0.0) for table in events))]
    lines += [ComparedQuantity(f"{kind} events", *(found.get(kind, 0) for found in kinds)) for kind in Kind]
    lines += [
        ComparedQuantity(f"tasks {fate.replace('_', ' ')}", *(int((found.fate == number).sum()) for found in tasks))
        for number, fate in enumerate(FATES)
    ]
    lines += [ComparedQuantity("mean staleness", *(_mean(found.staleness[found.staleness >= 0]) for found in tasks))]
    lines += [ComparedQuantity("mean seconds in the buffer", *(_mean(found.waiting_s) for found in tasks))]
    for name in ("train_loss", "test_loss", "test_accuracy", "test_r2", "test_mae", "bytes_up", "bytes_down"):
        if all(name in table.column_names and len(table) for table in rounds):
            lines += [ComparedQuantity(f"last {name}", *(float(table[name][-1].as_py()) for table in rounds))]
    # NaN is a mean over no tasks; NaN in both traces is no difference.
    return [
        line for line in lines if line.one != line.other and not (line.one != line.one and line.other != line.other)
    ]


def _mean(values: np.ndarray[Any, Any]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _changed_fates(one: Tasks, other: Tasks) -> int:
    """Count the tasks in both traces that have another client or fate."""
    _, mine, theirs = np.intersect1d(one.task, other.task, assume_unique=True, return_indices=True)
    different = (one.fate[mine] != other.fate[theirs]) | (one.client[mine] != other.client[theirs])
    return int(different.sum())
