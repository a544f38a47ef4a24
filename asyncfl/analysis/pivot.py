"""Final values as a small table for reading: mean and half width of the 95 % interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from asyncfl.analysis.grid import restricted, select
from asyncfl.analysis.labels import axis_label, number, value_label
from asyncfl.experiment import Table


def markdown(table: Table, grid: dict[str, tuple[Any, ...]], final: pd.DataFrame) -> str:
    """The table as Markdown, one line per value of `rows`, one column per value of `columns`."""
    grid = restricted(grid, table.where)
    across: list[Any] = list(grid[table.columns]) if table.columns else [None]
    head = [axis_label(table.rows, plain_text=True)]
    head += [value_label(v, table.columns or "") if table.columns else table.value for v in across]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in grid[table.rows]:
        cells = [value_label(row, table.rows)]
        for column in across:
            at = {**table.where, table.rows: row, **({table.columns: column} if table.columns else {})}
            cells.append(_cell(final[select(final, at) & (final["metric"] == table.value)]))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _cell(found: pd.DataFrame) -> str:
    if len(found) == 0:
        return "–"
    first = found.iloc[0]
    if not np.isfinite(first["mean"]):
        return "diverged" if first["diverged"] else "not by all seeds"
    half = (first["high"] - first["low"]) / 2
    lost = f" ({int(first['diverged'])} diverged)" if first["diverged"] else ""
    return number(first["mean"]) + (f" ± {number(half)}" if np.isfinite(half) else "") + lost
