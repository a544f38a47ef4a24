"""Figures of measured values: curves over rounds, final values as lines or bars; and convergence bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd

from asyncfl.base.quantities import with_unit
from asyncfl.experiments.bounds import ARGUMENTS, Bound, rows_of_bound
from asyncfl.experiments.csv_files import plain
from asyncfl.experiments.evidence.p_values import Floats
from asyncfl.experiments.figures.base import ColumnFigure, Panel, PanelFigure, in_words
from asyncfl.experiments.figures.drawing import (
    KEEP,
    OWN,
    asides,
    band,
    entry,
    key,
    log_ticks,
    look_at,
    name_ticks,
    rows_of,
    scale_in,
    spread,
)
from asyncfl.experiments.grid import AxisName, AxisValues, Reference, Tables, Where, select
from asyncfl.experiments.labels import absent_label, axis_label, column_label, value_label
from asyncfl.results.figure_style import looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


DARK = "#333333"
"""Colour of the intervals of bars."""


class Curves(ColumnFigure):
    """A measured column over rounds or time, one line per value of `hue`."""

    table: ClassVar[str] = "curves"

    kind: Literal["curves"] = "curves"
    x: Literal["round", "time_s", "bytes_up", "bytes_down", "epsilon_exact_max", "epsilon_exact_model"] = "round"
    """Versions, virtual seconds, traffic so far, or the largest epsilon of a client or that of the models."""
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

    def drawn_rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame[frame["round"] >= self.start]

    def columns_beside(self) -> Sequence[str]:
        return () if self.x == "round" else (self.x,)

    def draw_panel(self, axis: Axes, at: Where, hues: list[Any], grid: AxisValues, tables: Tables) -> None:
        curves = tables[self.table]
        across, up = scale_in(curves, [self.x], self.log_x), self.scale(tables)
        floor = self.floor(self.drawn_rows(rows_of(curves, self.y, self.where, up)))
        for place, look, label in self.each_hue(at, hues):
            rows = self.drawn_rows(rows_of(curves, self.y, place, up)).sort_values("round")
            x = rows["round"].to_numpy(float)
            if self.x != "round":
                passed = rows_of(curves, self.x, place).set_index("round")["mean"]
                x = passed.reindex(rows["round"]).to_numpy(float) / across.factor
            band(axis, x, rows, {**look, "markevery": max(1, len(x) // 8)}, entry(label, rows, self.y), floor)
        axis.set_xlabel(with_unit(self.label(self.x), across))
        axis.set_ylabel(with_unit(self.label(self.y), up))
        if self.log_x:
            axis.set_xscale("log")
        elif self.x == "round":
            from matplotlib.ticker import MaxNLocator

            axis.xaxis.set_major_locator(MaxNLocator(integer=True))

    def finish(self, axis: Axes) -> None:
        super().finish(axis)
        if self.log_x:
            log_ticks(axis.xaxis, *axis.get_xlim(), closest=(1, 3))


class OverAxis(ColumnFigure):
    """The value after the last round against an axis of the experiment."""

    x: AxisName
    """Axis."""

    def rows_over_x(self, metric: str, at: Where, grid: AxisValues, tables: Tables) -> pd.DataFrame:
        """Return a row per value of `x`, in order, in units of the figure's scale."""
        rows = rows_of(tables[self.table], metric, at, self.scale(tables))
        return rows.set_index(rows[self.x].map(key)).reindex([key(value) for value in grid[self.x]])


class Final(OverAxis):
    """The value after the last round against an axis, one line per value of `hue`."""

    kind: Literal["final"] = "final"
    y: str = "train_loss"
    """Column of the values after the last round."""
    log_x: bool = False
    """Logarithmic x axis, for an axis of numbers that range over decades."""
    limit: Annotated[str | None, Reference("ends")] = None
    """Column of the values after the last round that is drawn beside `y` as a black dashed line, the largest over
    `hue`: a limit that nothing passes, or is to stay below."""
    bound: Bound | None = None
    """A theorem drawn in a panel beside the measured values, over the same axis and hue."""

    def against(self) -> str:
        beside = "" if self.bound is None else f", beside theorem {self.bound.theorem}"
        limit = "" if self.limit is None else f"; dashed: {self.label(self.limit)}"
        return f" against {in_words(self.x)}{beside}{limit}"

    def legend_is_beside(self, hues: list[Any]) -> bool:
        return super().legend_is_beside(hues) or self.limit is not None

    def arguments(self, grid: AxisValues) -> AxisValues:
        """Return the axes on x and of the hue that are arguments of `bound`, which is drawn over them."""
        return {axis: grid[axis] for axis in (self.x, self.hue) if axis in ARGUMENTS and axis in grid}

    def panels_of(self, grid: AxisValues) -> list[Panel]:
        found = super().panels_of(grid)
        return found if self.bound is None else [found[0]._replace(title="measured"), *found[1:]]

    def panel_beside(self) -> Panel | None:
        if self.bound is None:
            return None
        drawn = BoundCurves(bound=f"figure {self.name}", x=self.x, hue=self.hue, log=self.log)
        return Panel(drawn, {}, f"theorem {self.bound.theorem}")

    def draw_panel(self, axis: Axes, at: Where, hues: list[Any], grid: AxisValues, tables: Tables) -> None:
        values = grid[self.x]
        numeric = all(isinstance(v, int | float) and np.isfinite(v) for v in values)
        places = np.asarray(values, float) if numeric else np.arange(len(values), dtype=float)
        series = [
            (self.rows_over_x(self.y, place, grid, tables), look, label)
            for place, look, label in self.each_hue(at, hues)
        ]
        floor = self.floor(rows_of(tables[self.table], self.y, self.where, self.scale(tables)))
        for (rows, look, label), aside in zip(series, asides([rows for rows, *_ in series]), strict=True):
            band(axis, places, rows, look, entry(label, rows, self.y), floor, aside)
        if self.limit is not None:
            limits = [
                self.rows_over_x(self.limit, place, grid, tables)["mean"] for place, *_ in self.each_hue(at, hues)
            ]
            largest = pd.concat(limits, axis=1).max(axis=1).to_numpy()
            look = {"color": "#000000", "linestyle": (0, (4, 2)), "marker": "_", "zorder": 1.8}
            axis.plot(places, largest, label=self.label(self.limit), **look)
        axis.set_xlabel(axis_label(self.x))
        axis.set_ylabel(with_unit(self.label(self.y), self.scale(tables)))
        if self.log_x:
            axis.set_xscale("log")
            axis.minorticks_off()
        names = [value_label(v, self.x) for v in values]
        if numeric:
            axis.set_xticks(places, names)
        else:
            name_ticks(axis, places.tolist(), names)


class Bars(OverAxis):
    """The value after the last round as bars, for axes that are names."""

    mark: ClassVar[str] = "bars"
    own_values: ClassVar[str] = "dashes"
    cut_at_floor: ClassVar[str] = "an arrow marks an interval that goes on below the axis"

    kind: Literal["bars"] = "bars"
    y: str = "test_accuracy"
    """Column of the values after the last round."""

    def against(self) -> str:
        return f" for each {in_words(self.x)}"

    def legend_is_beside(self, hues: list[Any]) -> bool:
        return super().legend_is_beside(hues) or self.hue is not None

    def floor(self, rows: pd.DataFrame) -> float | None:
        return decade_below(rows["mean"].to_numpy(float)) if self.log else None

    def draw_panel(self, axis: Axes, at: Where, hues: list[Any], grid: AxisValues, tables: Tables) -> None:
        points, width = grid[self.x], 0.8 / len(hues)
        # without a hue the values of x have the colours that they have as lines
        own_colours = [look["color"] for look in looks([plain(value) for value in points]).values()]
        for number, (place, look, label) in enumerate(self.each_hue(at, hues)):
            rows = self.rows_over_x(self.y, place, grid, tables)
            x = np.arange(len(points)) + (number - (len(hues) - 1) / 2) * width
            mean = rows["mean"].to_numpy(float)
            low, high, own = spread(rows)
            finite = np.where(np.isinf(mean), np.nan, mean)
            colours = own_colours if self.hue is None else [look["color"]] * len(points)
            axis.bar(x, finite, 0.92 * width, color=colours, label=entry(label, rows, self.y))
            known = ~own & np.isfinite(low) & np.isfinite(high)
            # an interval that is cut is not as wide on both sides of its mean
            middle, half = (high[known] + low[known]) / 2, (high[known] - low[known]) / 2
            axis.errorbar(x[known], middle, half, fmt="none", ecolor=DARK, elinewidth=0.9, capsize=2)
            for end in (low, high):
                axis.plot(x[own], end[own], "_", color=DARK, markersize=6, label=OWN)
            for absent in np.flatnonzero(~np.isfinite(mean)):
                note: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
                note |= {"rotation": 90, "ha": "center", "va": "bottom", "fontsize": 7, "color": colours[absent]}
                diverged = int(rows["diverged"].fillna(0).iloc[absent])
                axis.annotate(absent_label(self.y, mean[absent], diverged), (x[absent], 0), (0, 4), **note)
        name_ticks(axis, range(len(points)), [value_label(v, self.x) for v in points])
        axis.set_xlim(-0.6, len(points) - 0.4)
        axis.set_xlabel(axis_label(self.x))
        axis.set_ylabel(with_unit(self.label(self.y), self.scale(tables)))
        axis.grid(False, axis="x")

    def frame_panel(self, axis: Axes) -> None:
        axis.set_yscale("log" if self.log else "linear")
        heights = np.array([float(bar.get_height()) for bar in axis.patches])  # type: ignore[attr-defined]
        if not np.isfinite(heights).any():
            axis.set_yticks([])
        else:
            own = [line.get_ydata() for line in axis.lines if line.get_label() == OWN]
            look_at(axis, [heights, *own], self.log, decade_below(heights) if self.log else 0.0)

    def finish(self, axis: Axes) -> None:
        super().finish(axis)
        bottom, _ = axis.get_ylim()
        bars = [np.asarray(path.vertices, float) for drawn in axis.collections for path in drawn.get_paths()]
        cut = [ends[0, 0] for ends in bars if ends[:, 1].min() < bottom]  # a logarithmic axis never reaches 0
        look: dict[str, Any] = {"color": DARK, "markersize": 4, "label": OWN, "clip_on": False, "zorder": 4}
        if cut:
            [arrows] = axis.plot(cut, [0.0] * len(cut), "v", transform=axis.get_xaxis_transform(), **look, **KEEP)
            arrows.set_in_layout(False)


def decade_below(heights: Floats) -> float:
    """Return the power of ten below all bars, where they begin at a logarithmic axis.

    heights: (n,), of which those count that are above 0 and finite; 1 where there is none.
    """
    known = heights[(heights > 0) & np.isfinite(heights)]
    return float(10.0 ** (np.ceil(np.log10(known.min())) - 1)) if len(known) else 1.0


class BoundCurves(PanelFigure):
    """An entry of `bounds` against one of its arguments; its best integer is marked."""

    kind: Literal["bound"] = "bound"
    bound: str
    """Entry of `bounds`."""
    x: AxisName
    """The argument on x."""

    def shown(self) -> str:
        return f"{column_label('bound')} against {in_words(self.x)}"

    @property
    def bound_named(self) -> str | None:
        return self.bound

    def draw_panel(self, axis: Axes, at: Where, hues: list[Any], grid: AxisValues, tables: Tables) -> None:
        bound = rows_of_bound(tables["bounds"], self.bound)
        for place, look, label in self.each_hue(at, hues):
            if self.hue and place[self.hue] == np.inf:  # no noise: the bound says nothing
                continue
            rows = bound[select(bound, place) & bound["bound"].notna()].sort_values(self.x)
            look["marker"] = "" if len(rows) > 12 else look["marker"]
            axis.plot(rows[self.x], rows["bound"], **look, label=label)
            if len(rows):
                best = rows.iloc[int(rows["bound"].argmin())]
                axis.plot([best[self.x]], [best["bound"]], "o", mfc="white", mec=look["color"], ms=7, mew=1.6, zorder=5)
        axis.set_xlabel(axis_label(self.x))
        axis.set_ylabel(column_label("bound"))
