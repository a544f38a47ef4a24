"""Tables of an experiment: final values for reading: mean and half width of the 95 % interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from asyncfl.analysis.grid import AxisValues, restricted, select
from asyncfl.analysis.labels import axis_label, column_label, number, value_label
from asyncfl.component import Described

DUST = 1e-12
"""Share of a mean below which an interval is rounding of equal values."""


class Table(Described):
    """Final values as a table: mean and half width of the 95 % interval."""

    name: str = Field(default="table", pattern=r"^[a-z0-9_]+$")
    value: str = "train_loss"
    """Column of the values after the last round."""
    rows: str
    """Axis down the side."""
    columns: str | None = None
    """Axis across the top."""
    values: tuple[str, ...] = ()
    """Columns of the values that stand across the top, instead of `value` and of an axis."""
    where: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_columns(self) -> Table:
        if self.values and self.columns:
            raise ValueError("values and columns exclude each other: measured columns or an axis stand across the top")
        return self

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        """(field of the table, axis it names)."""
        named = [("rows", self.rows), ("columns", self.columns)]
        return [(field, axis) for field, axis in named if axis] + [("where", axis) for axis in self.where]

    def markdown(self, grid: AxisValues, final: pd.DataFrame) -> str:
        """As Markdown: a line per value of `rows`, a column per value of `columns` or per entry of `values`."""
        grid = restricted(grid, self.where)
        # an axis across the top, or measured columns: for each the place in the grid, the metric and the words above it
        across: list[tuple[dict[str, Any], str, str]]
        if self.columns:
            across = [({self.columns: v}, self.value, value_label(v, self.columns)) for v in grid[self.columns]]
        else:
            across = [({}, metric, column_label(metric)) for metric in self.values] or [({}, self.value, self.value)]
        head = [axis_label(self.rows, plain_text=True), *(words for _, _, words in across)]
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for row in grid[self.rows]:
            cells = [value_label(row, self.rows)]
            for place, metric, _ in across:
                at = {**self.where, self.rows: row, **place}
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
