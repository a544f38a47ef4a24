"""The tables of a run as a page shows them: summary, rounds, clients, ledger, detector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from asyncfl.base.columns import (
    AggregateColumns,
    ClientsTable,
    Column,
    EpsilonColumns,
    FairnessColumns,
    RoundsTable,
    UploadBudgetColumns,
    columns_of,
)
from asyncfl.privacy.ledger.rows import COLUMNS as LEDGER
from asyncfl.view.packing import Packing

DETECTION = (
    "judged",
    "unjudged",
    "true_positives",
    "false_positives",
    "false_negatives",
    "precision",
    "recall",
    "honest_bans",
    "malicious_bans",
)
"""Columns of the table of rounds that tell of a detector, besides those that begin with `detector_`."""

KNOWN: dict[str, Column] = columns_of(
    RoundsTable, FairnessColumns, AggregateColumns, UploadBudgetColumns, EpsilonColumns, ClientsTable
)

Described = dict[str, Any]


def tables_shown(tables: dict[str, pa.Table], summary: dict[str, Any], packing: Packing) -> list[Described]:
    """The tables that the run has, in the order in which they are read."""
    found = [_table("summary", _summary(summary), [], packing)] if summary.get("seeds") else []
    rounds = tables["rounds"]
    of_detector = [name for name in rounds.column_names if name in DETECTION or name.startswith("detector_")]
    others = [name for name in rounds.column_names if name not in of_detector]
    found += [_table("rounds", rounds.select(others), [], packing)]
    if "clients" in tables:
        found += [_table("clients", tables["clients"], [], packing)]
    if "ledger" in tables:
        found += [_table("ledger", tables["ledger"], summary.get("privacy", []), packing)]
    if "judged" in rounds.column_names and len(judged := rounds.filter(pc.field("judged") > 0)):
        found += [_table("detector", judged.select(["seed", "version", "time_s", *of_detector]), [], packing)]
    return found


def _summary(summary: dict[str, Any]) -> pa.Table:
    """One row per seed: why it ended, what became of its tasks."""
    rows = []
    for seed, one in summary["seeds"].items():
        row = {"seed": int(seed), "ended because": one["stopped"], "versions": one["versions"]}
        row |= {"virtual_s": one["virtual_s"]}
        row |= {f"tasks {name.replace('_', ' ')}": number for name, number in one.get("tasks", {}).items()}
        row |= {name.replace("_", " "): number for name, number in one.get("fates", {}).items() if number}
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    # A fate that nobody met in one seed was met by 0 tasks of it.
    return pa.table({name: [row.get(name, 0) for row in rows] for name in names})


def _table(name: str, table: pa.Table, about: Sequence[str], packing: Packing) -> Described:
    columns, silent = [], []
    for column in table.column_names:
        if says(table[column]):
            columns.append(_column(column, table[column], packing))
        else:
            silent.append(column)
    told = [*about, *([f"Columns without values are left out: {', '.join(silent)}."] if silent else [])]
    return {"name": name, "about": told, "rows": len(table), "columns": columns}


def says(column: pa.ChunkedArray) -> bool:
    """Whether a column holds anything: not only gaps, NaN and empty texts."""
    if types.is_floating(column.type):
        return not np.isnan(column.to_numpy()).all()
    if types.is_string(column.type) or types.is_dictionary(column.type):
        return any(text for text in column.unique().to_pylist())
    return bool(column.null_count < len(column))


def _column(name: str, column: pa.ChunkedArray, packing: Packing) -> Described:
    known = KNOWN.get(name)
    meaning = known.meaning if known is not None else LEDGER.get(name, "")
    about: Described = {"name": name, "unit": "" if known is None else known.unit, "meaning": meaning}
    if types.is_boolean(column.type):
        return about | packing.texts(_words(column.to_pylist()))
    if types.is_integer(column.type) or types.is_floating(column.type):
        # Gaps become NaN.
        return about | packing.numbers(column.to_numpy())
    return about | packing.texts([text or "" for text in column.cast(pa.string()).to_pylist()])


def _words(truths: Iterable[bool | None]) -> list[str]:
    return ["" if truth is None else "yes" if truth else "no" for truth in truths]
