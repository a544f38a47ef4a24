"""Comparison of two traces: their first difference, and the quantities that differ.

The same scenario and seed give the same trace, bit by bit, on the same machine. So the first different event shows the
first effect of a change; all later differences may follow from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.protocol.event_query import counts, select, value_of
from asyncfl.protocol.events import SCHEMA, Kind
from asyncfl.protocol.tasks import FATES, Tasks

CONTENT = tuple(name for name in SCHEMA.names if name not in ("seq", "seed"))
"""Columns that are compared: all but the position in the trace."""

CONTEXT = 3
"""Number of common events before a difference, and of events of each trace from there on, that are shown."""

Pair = tuple[pa.Table, pa.Table]
"""A table of the first run and of the second."""


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

    def described(self, one: str, other: str) -> str:
        """Return the end of a sentence: the columns that differ, or which run has ended."""
        return f"in {', '.join(self.columns)}" if self.columns else f"where {one if not self.one else other} has ended"

    def rows(self, both: str, one: str, other: str) -> tuple[list[str], list[list[Any]]]:
        """Return the columns with values around the difference, and rows of them behind the name of their run."""
        named = [(both, row) for row in self.common]
        named += [(one, row) for row in self.one] + [(other, row) for row in self.other]
        columns = [name for name in CONTENT if any(value_of(row[name]) is not None for _, row in named)]
        return columns, [[which, *(value_of(row[name]) for name in columns)] for which, row in named]


@dataclass(frozen=True)
class ComparedQuantity:
    """A quantity in both traces, such as `mean staleness`."""

    what: str
    one: float
    other: float


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
    lines: tuple[ComparedQuantity, ...] = ()
    """Quantities that differ; () where both traces are equal."""
    changed_fates: int = 0
    """Number of tasks in both traces that have another client or fate."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.events is None and self.rounds is None

    def sentences(self, one: str, other: str) -> Iterator[str]:
        """Yield what differs, in words. `one`, `other`: names of the runs."""
        if self.same:
            yield "the same events and the same published numbers"
            return
        if self.events is None:
            yield "the same events"
        else:
            yield f"first different event: number {self.events.row}, {self.events.described(one, other)}"
        if self.rounds is not None:
            version = min(int(rows[0]["version"]) for rows in (self.rounds.one, self.rounds.other) if rows)
            place = f"version {version}, {self.rounds.described(one, other)}"
            yield f"first different published numbers: {place}"
        if self.changed_fates:
            yield f"{self.changed_fates} tasks of both went to another client or had another fate"


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


def compare(one_run: Mapping[str, pa.Table], other_run: Mapping[str, pa.Table]) -> TraceComparison:
    """Compare two runs by their tables `events`, `rounds` and `tasks`, and return the differences.

    Each seed is compared with the same seed of the other run. Where each run has a single seed, these are compared.
    """
    runs = one_run, other_run
    mine, theirs = (sorted(tables["events"]["seed"].unique().to_pylist()) for tables in runs)
    pairs = [(seed, seed) for seed in mine if seed in theirs]
    if not pairs and len(mine) == len(theirs) == 1:
        pairs = [(mine[0], theirs[0])]
    seeds = []
    for one, two in pairs:
        both_events, both_rounds, both_tasks = (
            (select(one_run[name], seed=one), select(other_run[name], seed=two))
            for name in ("events", "rounds", "tasks")
        )
        # Runs of different versions of this program may have different columns: only common columns are compared.
        columns = [tables["rounds"].column_names for tables in runs]
        numbers = [name for name in columns[0] if name in columns[1] and name != "seed"]
        apart = divergence(*both_events, CONTENT), divergence(*both_rounds, numbers)
        if apart == (None, None):
            seeds.append(SeedComparison(one, two, None, None))
            continue
        tasks = Tasks.of(both_tasks[0]), Tasks.of(both_tasks[1])
        lines = tuple(_lines(both_events, both_rounds, tasks))
        seeds.append(SeedComparison(one, two, *apart, lines, _changed_fates(*tasks)))
    only = [
        tuple(seed for seed in of if seed not in {pair[i] for pair in pairs}) for i, of in enumerate((mine, theirs))
    ]
    return TraceComparison(tuple(seeds), *only)


def divergence(one: pa.Table, other: pa.Table, columns: Sequence[str]) -> Divergence | None:
    """Return the first row in which two tables differ in `columns`; None: they are equal. NaN equals NaN."""
    rows = min(len(one), len(other))
    differing = {}
    for name in columns:
        mask = _differs(one[name].slice(0, rows), other[name].slice(0, rows))
        if mask.any():
            differing[name] = int(np.argmax(mask))
    first = min(differing.values(), default=rows)
    if first == rows and len(one) == len(other):
        return None
    return Divergence(
        row=first,
        columns=tuple(name for name, place in differing.items() if place == first),
        common=tuple(one.slice(max(first - CONTEXT, 0), min(first, CONTEXT)).to_pylist()),
        one=tuple(one.slice(first, CONTEXT).to_pylist()),
        other=tuple(other.slice(first, CONTEXT).to_pylist()),
    )


def _differs(one: pa.ChunkedArray, other: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return for each row whether two columns differ, (rows,). NaN equals NaN."""
    if pa.types.is_dictionary(one.type):
        one, other = one.cast(pa.string()), other.cast(pa.string())
    mask: np.ndarray[Any, np.dtype[np.bool_]] = pc.not_equal(one, other).to_numpy()
    if pa.types.is_floating(one.type):
        mask = mask & ~(np.isnan(one.to_numpy()) & np.isnan(other.to_numpy()))
    return mask


def _lines(events: Pair, rounds: Pair, tasks: tuple[Tasks, Tasks]) -> Iterator[ComparedQuantity]:
    """Yield the totals and means (events, fates, staleness, last metrics) in which the two traces differ."""
    mine, theirs = (_quantities(*of_run) for of_run in zip(events, rounds, tasks, strict=True))
    for what, one in mine.items():
        other = theirs.get(what, one)
        # NaN is a mean over no tasks; NaN in both traces is no difference.
        if one != other and not (one != one and other != other):
            yield ComparedQuantity(what, one, other)


def _quantities(events: pa.Table, rounds: pa.Table, tasks: Tasks) -> dict[str, float]:
    kinds, fates = counts(events), np.bincount(tasks.fate, minlength=len(FATES))
    found = {"events": len(events), "virtual seconds": float(pc.max(events["time_s"]).as_py() or 0.0)}
    found |= {f"{kind} events": kinds.get(kind, 0) for kind in Kind}
    found |= {f"tasks {fate.replace('_', ' ')}": int(number) for fate, number in zip(FATES, fates, strict=True)}
    found["mean staleness"] = _mean(tasks.staleness[tasks.staleness >= 0])
    found["mean seconds in the buffer"] = _mean(tasks.waiting_s)
    for name in ("train_loss", "test_loss", "test_accuracy", "test_r2", "test_mae", "bytes_up", "bytes_down"):
        if name in rounds.column_names and len(rounds):
            found[f"last {name}"] = float(rounds[name][-1].as_py())
    return found


def _mean(values: np.ndarray[Any, Any]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _changed_fates(one: Tasks, other: Tasks) -> int:
    """Count the tasks in both traces that have another client or fate."""
    _, mine, theirs = np.intersect1d(one.task, other.task, assume_unique=True, return_indices=True)
    different = (one.fate[mine] != other.fate[theirs]) | (one.client[mine] != other.client[theirs])
    return int(different.sum())
