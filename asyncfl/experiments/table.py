"""Tables of an experiment for reading: mean and half of the 95 % interval of final values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from asyncfl.base.component import Described
from asyncfl.base.quantities import NONE, with_interval
from asyncfl.experiments.columns import unit_of
from asyncfl.experiments.grid import AxisValues, restricted, select, values_of
from asyncfl.experiments.intervals import convention
from asyncfl.experiments.labels import axis_label, column_label, end_label, value_label

DUST = 1e-12
"""Share of a mean below which an interval is rounding of equal values."""


class Table(Described):
    """Final values as a table: mean and half of the 95 % interval over seeds."""

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

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        """(field of the table, axis, value of it that the table shows)."""
        return values_of(self.where)

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        """(field of the table, table that has the column, column that it shows)."""
        if self.values:
            return [(f"values.{number}", "ends", column) for number, column in enumerate(self.values)]
        return [("value", "ends", self.value)]

    def markdown(self, grid: AxisValues, final: pd.DataFrame) -> str:
        """As Markdown: a line per value of `rows`, a column per value of `columns` or per entry of `values`; a sentence
        where nothing of it is run at this scale."""
        grid = restricted(grid, self.where)
        if not all(grid.values()):
            return "Not run at this scale.\n"
        # an axis across the top, or measured columns: for each the place in the grid, the metric and the words above it
        across: list[tuple[dict[str, Any], str, str]]
        if self.columns:
            across = [({self.columns: v}, self.value, value_label(v, self.columns)) for v in grid[self.columns]]
        else:
            across = [({}, metric, column_label(metric)) for metric in self.values] or [
                ({}, self.value, end_label(self.value))
            ]
        head = [axis_label(self.rows, plain_text=True), *(words for _, _, words in across)]
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        found = [
            [
                final[select(final, {**self.where, self.rows: row, **place}) & (final["metric"] == metric)]
                for place, metric, _ in across
            ]
            for row in grid[self.rows]
        ]
        seeds = max((int(cell.iloc[0]["seeds"]) for cells in found for cell in cells if len(cell)), default=0)
        for row, cells in zip(grid[self.rows], found, strict=True):
            lines.append(
                "| " + " | ".join([value_label(row, self.rows), *(_cell(cell, seeds) for cell in cells)]) + " |"
            )
        about = f"{end_label(self.value)}: {convention(seeds)}." if self.columns else f"{convention(seeds)}."
        return "\n".join([*lines, "", about[0].upper() + about[1:], ""])


def _cell(found: pd.DataFrame, seeds: int) -> str:
    """A mean and half its interval; how many seeds it is over where that are not `seeds`, and how many diverged."""
    if len(found) == 0:
        return NONE
    first = found.iloc[0]
    mean, metric = float(first["mean"]), str(first["metric"])
    if not np.isfinite(mean):
        if first["diverged"]:
            return "diverged"
        # nothing hides what was released; other values are infinite where a seed never got to a target
        return "∞" if metric.startswith("epsilon_") else "not by all seeds" if np.isinf(mean) else NONE
    half = (first["high"] - first["low"]) / 2
    half = 0.0 if half < DUST * abs(mean) else half
    notes = [f"n = {int(first['seeds'])}"] if first["seeds"] != seeds else []
    notes += [f"{int(first['diverged'])} diverged"] if first["diverged"] else []
    return with_interval(mean, half, unit_of(metric)) + (f" ({', '.join(notes)})" if notes else "")
