"""Final values as a small table for reading: mean and half width of the 95 % interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from asyncfl.analysis.grid import restricted, select
from asyncfl.analysis.labels import axis_label, column_label, number, value_label
from asyncfl.experiment import Table

DUST = 1e-12
"""Share of a mean below which an interval is rounding of equal values."""


def markdown(table: Table, grid: dict[str, tuple[Any, ...]], final: pd.DataFrame) -> str:
    """The table as Markdown: a line per value of `rows`, a column per value of `columns` or per entry of `values`."""
    grid = restricted(grid, table.where)
    # an axis across the top, or measured columns: for each the place in the grid, the metric and the words above it
    across: list[tuple[dict[str, Any], str, str]]
    if table.columns:
        across = [({table.columns: v}, table.value, value_label(v, table.columns)) for v in grid[table.columns]]
    else:
        across = [({}, metric, column_label(metric)) for metric in table.values] or [({}, table.value, table.value)]
    head = [axis_label(table.rows, plain_text=True), *(words for _, _, words in across)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in grid[table.rows]:
        cells = [value_label(row, table.rows)]
        for place, metric, _ in across:
            at = {**table.where, table.rows: row, **place}
            cells.append(_cell(final[select(final, at) & (final["metric"] == metric)]))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _cell(found: pd.DataFrame) -> str:
    if len(found) == 0:
        return "–"
    first = found.iloc[0]
    if not np.isfinite(first["mean"]):
        if first["diverged"]:
            return "diverged"
        # nothing hides what was released; other values are infinite where a seed never got to a target
        return "∞" if str(first["metric"]).startswith("epsilon_") else "not by all seeds"
    half = (first["high"] - first["low"]) / 2
    half = 0.0 if half < DUST * abs(first["mean"]) else half
    lost = f" ({int(first['diverged'])} diverged)" if first["diverged"] else ""
    return number(first["mean"]) + (f" ± {number(half)}" if np.isfinite(half) else "") + lost
