"""Figures of measured values: curves over rounds, final values as lines or bars; and convergence bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pandas as pd

from asyncfl.base.figure_style import LETTER, WIDTH, looks
from asyncfl.base.quantities import with_unit
from asyncfl.experiments.bounds import ARGUMENTS, Bound, first_fault, of
from asyncfl.experiments.evidence.samples import Floats
from asyncfl.experiments.figures.base import in_words
from asyncfl.experiments.figures.coinciding import OWN
from asyncfl.experiments.figures.drawing import (
    band,
    bound_lines,
    diverged_in_words,
    divided,
    frame,
    key,
    log_ticks,
    look_at,
    note,
    places_of,
    rows_of,
    scale_in,
    spread,
    whole_numbers,
)
from asyncfl.experiments.figures.panels import Measured, PanelFigure
from asyncfl.experiments.grid import AxisValues, Tables, Where
from asyncfl.experiments.labels import axis_label, column_label, legend_label, value_label

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


LIMIT: dict[str, Any] = {"color": "#000000", "linestyle": (0, (4, 2)), "marker": "_", "zorder": 1.8}
"""The line of a limit."""


class Final(Measured):
    """The value after the last round against an axis, one line per value of `hue`."""

    kind: Literal["final"] = "final"
    x: str
    """Axis."""
    y: str = "train_loss"
    """Column of the values after the last round."""
    log_x: bool = False
    """Logarithmic x axis, for an axis of numbers that range over decades."""
    limit: str | None = None
    """Column of the values after the last round that is drawn beside `y` as a black dashed line, the largest over
    `hue`: what nobody can pass, or is to stay below."""
    bound: Bound | None = None
    """A theorem drawn in a panel beside the measured values, over the same axis and hue."""

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        return [("x", self.x), *super().axes_named]

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        return super().columns_named + ([] if self.limit is None else [("limit", "ends", self.limit)])

    def against(self) -> str:
        beside = "" if self.bound is None else f", beside theorem {self.bound.theorem}"
        limit = "" if self.limit is None else f"; dashed: {self.label(self.limit)}"
        return f" against {in_words(self.x)}{beside}{limit}"

    def legend_is_beside(self, hues: list[Any]) -> bool:
        return super().legend_is_beside(hues) or self.limit is not None

    def own_bound(self, grid: AxisValues) -> pd.DataFrame | None:
        return None if self.bound is None else self.bound.over(self._arguments(grid)).assign(name=self._entry)

    def own_bound_fault(self, grid: AxisValues) -> str | None:
        return None if self.bound is None else first_fault(self.bound, self._arguments(grid))

    def _arguments(self, grid: AxisValues) -> AxisValues:
        """The axes on x and of the hue that are arguments of the bound."""
        return {axis: grid[axis] for axis in (self.x, self.hue) if axis in ARGUMENTS and axis in grid}

    @property
    def _entry(self) -> str:
        """Name of the values of `own_bound` in the table of bounds."""
        return f"figure {self.name}"

    def panels_beside(self) -> int:
        return 0 if self.bound is None else 1

    def draw_panel(self, axis: Axes, at: Where, hues: list[Any], grid: AxisValues, tables: Tables) -> None:
        places, names = places_of(self.x, grid)
        up = self.scale(tables)
        for hue, look in looks(hues).items():
            rows = divided(rows_of(tables[self.table], self.y, at, self.hue, hue), up)
            rows = rows.set_index(rows[self.x].map(key)).reindex([key(v) for v in grid[self.x]])
            label = None if self.hue is None else legend_label(self.hue, hue) + diverged_in_words(rows)
            band(axis, places, rows, look, label)
        if self.limit is not None:
            axis.plot(places, self._limits(at, hues, grid, tables) / up.factor, label=self.label(self.limit), **LIMIT)
        axis.set_xlabel(axis_label(self.x))
        axis.set_ylabel(with_unit(self.label(self.y), up))
        if self.log_x:
            axis.set_xscale("log")
            axis.minorticks_off()
        axis.set_xticks(places, names)

    def _limits(self, at: dict[str, Any], hues: list[Any], grid: AxisValues, tables: Tables) -> Floats:
        """(points of x,) the largest mean of `limit` over the hues; NaN where there is none."""
        found = pd.concat([rows_of(tables[self.table], self.limit or "", at, self.hue, hue) for hue in hues])
        largest = found["mean"].groupby(found[self.x].map(key)).max()
        return largest.reindex([key(value) for value in grid[self.x]]).to_numpy(float)

    def draw_beside(self, axes: list[Axes], hues: list[Any], tables: Tables) -> None:
        if self.bound is None:
            return
        axes[0].set_title("measured")
        axes[-1].set_title(f"theorem {self.bound.theorem}")
        bound_lines(axes[-1], self.x, self.hue, hues, of(tables["bounds"], self._entry), {})
        axes[-1].set_xticks(axes[0].get_xticks())
        frame(axes[-1], self.log)


class Bars(Measured):
    """The value after the last round as bars, for axes that are names."""

    mark: ClassVar[str] = "bars"
    own_values: ClassVar[str] = "dashes"

    kind: Literal["bars"] = "bars"
    x: str
    """Axis."""
    y: str = "test_accuracy"
    """Column of the values after the last round."""

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        return [("x", self.x), *super().axes_named]

    def against(self) -> str:
        return f" for each {in_words(self.x)}"

    def legend_is_beside(self, hues: list[Any]) -> bool:
        return super().legend_is_beside(hues) or hues != [None]

    def draw_panel(self, axis: Axes, at: Where, hues: list[Any], grid: AxisValues, tables: Tables) -> None:
        points = grid[self.x]
        width, up = 0.8 / len(hues), self.scale(tables)
        for number, (hue, look) in enumerate(looks(hues).items()):
            rows = divided(rows_of(tables[self.table], self.y, at, self.hue, hue), up)
            rows = rows.set_index(rows[self.x].map(key)).reindex([key(v) for v in points])
            x = np.arange(len(points)) + (number - (len(hues) - 1) / 2) * width
            mean = rows["mean"].to_numpy(float)
            low, high, own = spread(rows)
            half = np.zeros(len(points))
            np.subtract(high / 2, low / 2, out=half, where=np.isfinite(low) & np.isfinite(high))
            label = None if self.hue is None else legend_label(self.hue, hue) + diverged_in_words(rows)
            finite = np.where(np.isinf(mean), np.nan, mean)
            axis.bar(x, finite, 0.92 * width, color=look["color"], label=label)
            axis.errorbar(x[~own], finite[~own], half[~own], fmt="none", ecolor="#333333", elinewidth=0.9, capsize=2)
            for end in (low, high):
                axis.plot(x[own], end[own], "_", color="#333333", markersize=6, label=OWN)
            for place in x[np.isinf(mean)]:  # a target that was not reached has no bar
                note(axis, place, "not by all seeds", look["color"])
        names = [value_label(v, self.x) for v in points]
        # names that would run into each other are written aslant
        slant: dict[str, Any] = {"rotation": 40, "ha": "right"} if sum(map(len, names)) * LETTER > WIDTH - 0.8 else {}
        axis.set_xticks(range(len(points)), names, **slant)
        axis.set_xlim(-0.6, len(points) - 0.4)
        axis.set_xlabel(axis_label(self.x))
        axis.set_ylabel(with_unit(self.label(self.y), up))
        axis.grid(False, axis="x")

    def frame_panel(self, axis: Axes) -> None:
        axis.set_yscale("log" if self.log else "linear")
        heights = np.array([float(bar.get_height()) for bar in axis.patches])  # type: ignore[attr-defined]
        if not np.isfinite(heights).any():
            axis.set_yticks([])
        else:  # an interval of two seeds may leave the axes, as bands do
            own = [np.asarray(line.get_ydata(), float) for line in axis.lines if line.get_label() == OWN]
            look_at(axis, [heights, *own], self.log, decade_below(heights) if self.log else 0.0)


def decade_below(heights: Floats) -> float:
    """Where bars begin at a logarithmic axis, which has no zero: the power of ten below all of them.

    heights: (n,), of which those count that are above 0 and finite; 1 where there is none.
    """
    known = heights[(heights > 0) & np.isfinite(heights)]
    return float(10.0 ** (np.ceil(np.log10(known.min())) - 1)) if len(known) else 1.0


class BoundCurves(PanelFigure):
    """An entry of `bounds` against one of its arguments; its best integer is marked."""

    kind: Literal["bound"] = "bound"
    bound: str
    """Entry of `bounds`."""
    x: str
    """The argument on x."""

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        return [("x", self.x), *super().axes_named]

    def shown(self) -> str:
        return f"{column_label('bound')} against {in_words(self.x)}"

    @property
    def bound_named(self) -> str | None:
        return self.bound

    def draw_panel(self, axis: Axes, at: Where, hues: list[Any], grid: AxisValues, tables: Tables) -> None:
        bound_lines(axis, self.x, self.hue, hues, of(tables["bounds"], self.bound), at)
