"""The tables of a run as a page shows them: summary, rounds, clients, ledger, detector."""

from __future__ import annotations

from collections.abc import Sequence
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
    UploadEpsilonColumns,
    columns_of,
)
from asyncfl.privacy.ledger.rows import COLUMNS as LEDGER
from asyncfl.view.packing import Packing

DETECTION = (
    *("judged", "unjudged", "true_positives", "false_positives", "false_negatives", "precision", "recall"),
    *("honest_bans", "malicious_bans"),
)
"""Columns of the table of rounds about a detector, besides those that begin with `detector_`."""

KNOWN = {name: Column(pa.null(), "", meaning) for name, meaning in LEDGER.items()} | columns_of(
    RoundsTable, FairnessColumns, AggregateColumns, UploadEpsilonColumns, EpsilonColumns, ClientsTable
)

Packed = dict[str, Any]


def pack_tables(tables: dict[str, pa.Table], summary: dict[str, Any], packing: Packing) -> list[Packed]:
    """Pack the tables that the run has, in the order in which they are read."""
    rounds = tables["rounds"]
    of_detector = [name for name in rounds.column_names if name in DETECTION or name.startswith("detector_")]
    shown = {"rounds": rounds.drop_columns(of_detector)} | {
        name: tables[name] for name in ("clients", "ledger") if name in tables
    }
    if summary.get("seeds"):
        shown = {"summary": _summary(summary)} | shown
    if "judged" in of_detector and len(judged := rounds.filter(pc.field("judged") > 0)):
        shown["detector"] = judged.select(["seed", "version", "time_s", *of_detector])
    about = {"ledger": summary.get("privacy", [])}
    return [_pack_table(name, table, about.get(name, []), packing) for name, table in shown.items()]


def _summary(summary: dict[str, Any]) -> pa.Table:
    """Return one row per seed: why it ended, what became of its tasks."""
    rows = []
    for seed, one in summary["seeds"].items():
        row = {"seed": int(seed), "ended because": one["stopped"], "versions": one["versions"]}
        row |= {"virtual_s": one["virtual_s"]}
        row |= {f"tasks {name.replace('_', ' ')}": number for name, number in one.get("tasks", {}).items()}
        row |= {name.replace("_", " "): number for name, number in one.get("fates", {}).items() if number}
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    # A fate that no task of a seed had counts 0 there.
    return pa.table({name: [row.get(name, 0) for row in rows] for name in names})


def _pack_table(name: str, table: pa.Table, about: Sequence[str], packing: Packing) -> Packed:
    silent = [column for column in table.column_names if not _has_values(table[column])]
    columns = [_pack_column(column, table[column], packing) for column in table.column_names if column not in silent]
    notes = [*about, *([f"Columns without values are left out: {', '.join(silent)}."] if silent else [])]
    return {"name": name, "about": notes, "rows": len(table), "columns": columns}


def _has_values(column: pa.ChunkedArray) -> bool:
    """Whether a column holds more than gaps, NaN and empty texts."""
    if types.is_floating(column.type):
        return not np.isnan(column.to_numpy()).all()
    if types.is_string(column.type) or types.is_dictionary(column.type):
        return any(text for text in column.unique().to_pylist())
    return bool(column.null_count < len(column))


def _pack_column(name: str, column: pa.ChunkedArray, packing: Packing) -> Packed:
    known = KNOWN.get(name, Column(pa.null(), ""))
    about: Packed = {"name": name, "unit": known.unit, "meaning": known.meaning}
    if types.is_integer(column.type) or types.is_floating(column.type):
        # Gaps become NaN.
        return about | packing.numbers(column.to_numpy())
    words = {None: "", True: "yes", False: "no"}
    texts = column.to_pylist() if types.is_boolean(column.type) else column.cast(pa.string()).to_pylist()
    return about | packing.texts([words.get(text, text) for text in texts])
