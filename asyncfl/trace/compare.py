"""Two traces beside each other: where they part, and by how much.

Same scenario, same seed, same machine: the traces are equal to the last bit. So the first event that differs shows what
a change has changed first; everything after it may be its consequence.
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
"""Columns that say what happened; the others say where it stands."""

CONTEXT = 3
"""Common events shown before a difference, and events of each trace after it."""


@dataclass(frozen=True)
class Divergence:
    """The first row in which two tables differ."""

    row: int
    """Its number from 0; the length of the shorter table where that is a beginning of the longer one."""
    columns: tuple[str, ...]
    """Columns that differ in it; () where one table has ended."""
    common: tuple[dict[str, Any], ...]
    """The last rows before it."""
    one: tuple[dict[str, Any], ...]
    """The row and those after it in the first table."""
    other: tuple[dict[str, Any], ...]
    """The same of the second table."""


@dataclass(frozen=True)
class ComparedQuantity:
    """One quantity of both traces."""

    what: str
    one: float
    other: float


@dataclass(frozen=True)
class SeedComparison:
    """One seed of both runs."""

    seed: int
    other_seed: int
    """The same, unless each run has one seed only."""
    events: Divergence | None
    """None: the same events happened, at the same times, in the same order."""
    rounds: Divergence | None
    """The first published version with other numbers; None: there is none."""
    lines: tuple[ComparedQuantity, ...]
    """What differs in sum; () where nothing does."""
    changed_fates: int
    """Tasks that both have, but given to another client or with another fate."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.events is None and self.rounds is None


@dataclass(frozen=True)
class TraceComparison:
    """Two runs beside each other."""

    seeds: tuple[SeedComparison, ...]
    only_one: tuple[int, ...]
    """Seeds that only the first run has."""
    only_other: tuple[int, ...]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.only_one and not self.only_other and all(seed.same for seed in self.seeds)


def compare(events: pa.Table, other: pa.Table, rounds: pa.Table, other_rounds: pa.Table) -> TraceComparison:
    """What differs between two runs, given their tables of events and of rounds.

    Seeds are compared with the same seed of the other run, or, where each run has just one, with each other.
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
    """The first row in which two tables differ in `columns`; None where they are equal. NaN equals NaN."""
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
    if pa.types.is_dictionary(one.type):
        one, other = one.cast(pa.string()), other.cast(pa.string())
    mask: np.ndarray[Any, np.dtype[np.bool_]] = pc.not_equal(one, other).to_numpy()
    if pa.types.is_floating(one.type):
        mask = mask & ~(np.isnan(one.to_numpy()) & np.isnan(other.to_numpy()))
    return mask


def _compare_seed(
    events: tuple[pa.Table, pa.Table], rounds: tuple[pa.Table, pa.Table], seeds: tuple[int, int]
) -> SeedComparison:
    # Runs of different versions of this program may have columns of their own: what both have is compared.
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
    """The quantities of a summary that differ."""
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
    # NaN stands for a mean of nothing: of nothing in both is no difference.
    return [
        line for line in lines if line.one != line.other and not (line.one != line.one and line.other != line.other)
    ]


def _mean(values: np.ndarray[Any, Any]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _changed_fates(one: Tasks, other: Tasks) -> int:
    """Number of tasks that both traces have, but with another client or fate."""
    _, mine, theirs = np.intersect1d(one.task, other.task, assume_unique=True, return_indices=True)
    different = (one.fate[mine] != other.fate[theirs]) | (one.client[mine] != other.client[theirs])
    return int(different.sum())
