"""Tables of an experiment for reading: mean and half of the 95 % interval of final values."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from asyncfl.base.quantities import NONE, with_interval
from asyncfl.experiments.experiment_columns import unit_of
from asyncfl.experiments.grid import AxisName, AxisValues, ExperimentPart, Reference, Where, restricted, select
from asyncfl.experiments.intervals import convention
from asyncfl.experiments.labels import absent_label, axis_label, column_label, end_label, value_label

DUST = 1e-12
"""Share of a mean below which an interval is rounding of equal values."""


class Table(ExperimentPart):
    """Final values as a table: mean and half of the 95 % interval over seeds."""

    name: str = Field(default="table", pattern=r"^[a-z0-9_]+$")
    value: str = "train_loss"
    """Column of the values after the last round."""
    rows: AxisName
    """Axis down the side."""
    columns: Annotated[str | None, Reference("axis")] = None
    """Axis across the top."""
    values: tuple[str, ...] = ()
    """Columns of the values that stand across the top, instead of `value` and of an axis."""

    @model_validator(mode="after")
    def _check_columns(self) -> Table:
        if self.values and self.columns:
            raise ValueError("values and columns exclude each other: measured columns or an axis stand across the top")
        return self

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        of = [(f"values.{number}", "ends", column) for number, column in enumerate(self.values)]
        return of or [("value", "ends", self.value)]

    def markdown(self, grid: AxisValues, final: pd.DataFrame) -> str:
        """Return the table as Markdown: a line per value of `rows`, a column per value of `columns` or per entry of
        `values`; a sentence where nothing of it is run at this scale."""
        grid = restricted(grid, self.where)
        if not all(grid.values()):
            return "Not run at this scale.\n"
        # (place in the grid, metric, words above it) of each column
        across: list[tuple[Where, str, str]] = [({}, metric, column_label(metric)) for metric in self.values]
        if self.columns:
            across = [({self.columns: v}, self.value, value_label(v, self.columns)) for v in grid[self.columns]]
        across = across or [({}, self.value, end_label(self.value))]
        found = [
            [
                final[select(final, {**self.where, self.rows: row, **at}) & (final["metric"] == metric)]
                for at, metric, _ in across
            ]
            for row in grid[self.rows]
        ]
        seeds = max((int(cell.iloc[0]["seeds"]) for cells in found for cell in cells if len(cell)), default=0)
        lines = [[axis_label(self.rows, plain_text=True), *(words for *_, words in across)]]
        for row, cells in zip(grid[self.rows], found, strict=True):
            lines.append([value_label(row, self.rows), *(_cell(cell, seeds) for cell in cells)])
        head, *body = ["| " + " | ".join(line) + " |" for line in lines]
        about = f"{end_label(self.value)}: {convention(seeds)}." if self.columns else f"{convention(seeds)}."
        return "\n".join([head, "|" + "---|" * len(lines[0]), *body, "", about[0].upper() + about[1:], ""])


def _cell(found: pd.DataFrame, seeds: int) -> str:
    """Return a mean and half its interval; the number of seeds where it is not `seeds`, and how many diverged."""
    if len(found) == 0:
        return NONE
    first = found.iloc[0]
    mean, metric = float(first["mean"]), str(first["metric"])
    if not np.isfinite(mean):
        return absent_label(metric, mean, int(first["diverged"]))
    half = (first["high"] - first["low"]) / 2
    half = 0.0 if half < DUST * abs(mean) else half
    notes = [f"n = {int(first['seeds'])}"] if first["seeds"] != seeds else []
    notes += [f"{int(first['diverged'])} diverged"] if first["diverged"] else []
    return with_interval(mean, half, unit_of(metric)) + (f" ({', '.join(notes)})" if notes else "")
