"""Curves over rounds, time, traffic or epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from asyncfl.base.figure_style import looks
from asyncfl.base.quantities import with_unit
from asyncfl.experiments.figures.drawing import (
    band,
    diverged_in_words,
    divided,
    log_ticks,
    rows_of,
    scale_in,
    whole_numbers,
)
from asyncfl.experiments.figures.panels import Measured
from asyncfl.experiments.grid import AxisValues, Tables, Where
from asyncfl.experiments.labels import column_label, legend_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Curves(Measured):
    """A measured column over rounds or time, one line per value of `hue`."""

    table: ClassVar[str] = "curves"

    kind: Literal["curves"] = "curves"
    x: Literal["round", "time_s", "bytes_up", "bytes_down", "epsilon_exact_max", "epsilon_exact_model"] = "round"
    """What has passed: versions, virtual seconds, traffic, or the largest epsilon of a client or that of the models."""
    y: str = "train_loss"
    """Column of the run's rounds."""
    start: int = 1
    """First round that is drawn; 0 draws the initial model too."""
    log_x: bool = False
    """Logarithmic x axis, for times and budgets that range over decades."""

    def label(self, column: str) -> str:
        return column_label(column)

    def against(self) -> str:
        return f" over {column_label(self.x)}"

    def columns_beside(self) -> Sequence[str]:
        return () if self.x == "round" else (self.x,)

    def draw_panel(self, axis: Axes, at: Where, hues: list[Any], grid: AxisValues, tables: Tables) -> None:
        curves = tables[self.table]
        across, up = scale_in(curves, [self.x], self.log_x), self.scale(tables)
        for hue, look in looks(hues).items():
            rows = divided(rows_of(curves, self.y, at, self.hue, hue), up)
            rows = rows[rows["round"] >= self.start].sort_values("round")
            x = rows["round"].to_numpy(float)
            if self.x != "round":
                times = rows_of(curves, self.x, at, self.hue, hue).set_index("round")["mean"]
                x = times.reindex(rows["round"]).to_numpy(float) / across.factor
            label = None if self.hue is None else legend_label(self.hue, hue) + diverged_in_words(rows)
            band(axis, x, rows, {**look, "markevery": max(1, len(x) // 8)}, label)
        axis.set_xlabel(with_unit(self.label(self.x), across))
        axis.set_ylabel(with_unit(self.label(self.y), up))
        if self.log_x:
            axis.set_xscale("log")
        elif self.x == "round":
            whole_numbers(axis)

    def finish(self, axis: Axes) -> None:
        super().finish(axis)
        if self.log_x:
            log_ticks(axis.xaxis, *axis.get_xlim(), closest=(1, 3))
