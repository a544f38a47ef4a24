"""Figures of an experiment, drawn from its tables."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asyncfl.analysis.grid import Floats, restricted, select
from asyncfl.analysis.heatmap import LETTER, draw_heatmap
from asyncfl.analysis.labels import axis_label, column_label, end_label, legend_label, value_label
from asyncfl.analysis.overlay import overlaid
from asyncfl.analysis.statistics import DECISIVE_SEEDS
from asyncfl.analysis.style import HEIGHT, WIDTH, canvas, looks, save, styled
from asyncfl.experiment.figure import Bars, BoundCurves, Curves, Figure, FigureBase, Final, Heatmap, Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Axes_ = dict[str, tuple[Any, ...]]
TITLE_LETTERS = 10.0
"""Letters of a panel's title to the inch."""
MANY = 4
"""Lines above which the legend stands beside the axes, as it would cover them; beside bars it always does."""
OUTSIDE = 1.5
"""Inches that it takes there."""


def draw(
    figure: Figure,
    grid: Axes_,
    tables: Mapping[str, pd.DataFrame],
    caption: str,
    title: str,
    stem: str | Path,
) -> list[Path]:
    """Writes `stem`.svg and .png of one figure and returns their paths.

    grid: axis -> its values at this scale. tables: `curves` and `final`; for a figure with a bound also its values
    under `bound` (columns: the axes and `bound`).
    """
    grid = restricted(grid, figure.where)
    if not all(grid.values()):
        return _draw_nothing(caption, figure.title or title, stem)
    said = None
    if isinstance(figure, Measured) and figure.overlay:
        figure, grid, tables, said = overlaid(figure, grid, tables)
    if isinstance(figure, Heatmap):
        return draw_heatmap(figure, grid, tables["final"], caption, title, stem)
    with styled():
        panels: list[Any] = list(grid[figure.panels]) if figure.panels else [None]
        shown: list[Figure] = [figure] * len(panels)
        if isinstance(figure, Measured) and figure.ys:
            shown = [figure.model_copy(update={"y": column}) for column in figure.ys]
            panels = [None] * len(shown)
        # without a legend entry per line a single hue value still needs its look
        hues: list[Any] = list(grid[figure.hue]) if figure.hue else [None]
        beside = isinstance(figure, Final) and figure.bound is not None
        many = len(hues) > MANY or (isinstance(figure, Bars) and hues != [None])
        size = (WIDTH + OUTSIDE / len(panels), HEIGHT + 0.6) if many else None
        page, axes = canvas(len(panels) + beside, caption, figure.title or title, size)
        for place, (axis, panel) in enumerate(zip(axes, panels, strict=False)):
            at = dict(figure.where) if figure.panels is None else {**figure.where, figure.panels: panel}
            _draw_panel(shown[place], axis, at, hues, grid, tables)
            if said is not None:
                axis.set_ylabel(said)
            if figure.panels:
                axis.set_title(legend_label(figure.panels, panel))
            elif len(shown) > 1:  # a shared axis is named at the first panel alone
                across = page.get_size_inches()[0] / len(shown)
                axis.set_title(textwrap.fill(axis.get_ylabel(), int(across * TITLE_LETTERS)))
                axis.set_ylabel("")
            if many and place == len(panels) - 1:
                axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
            elif not many and place == 0 and hues != [None]:
                axis.legend()
        if beside and isinstance(figure, Final) and figure.bound is not None:
            axes[0].set_title("measured")
            axes[-1].set_title(f"theorem {figure.bound.theorem}")
            _draw_bound(axes[-1], figure.x, figure, hues, tables["bound"], {})
            axes[-1].set_xticks(axes[0].get_xticks())
            _frame(axes[-1], figure.log)
        if len(panels) > 1 and figure.share_y:
            _share_y(axes[: len(panels)])
        for axis in axes:
            if figure.log:
                _log_ticks(axis.yaxis, *axis.get_ylim())
            if isinstance(figure, Curves) and figure.log_x:
                _log_ticks(axis.xaxis, *axis.get_xlim(), closest=(1, 3))
        return save(page, stem)


def _draw_nothing(caption: str, title: str, stem: str | Path) -> list[Path]:
    """A figure whose values are all left out at this scale says so: empty axes look like a mistake."""
    with styled():
        page, [axis] = canvas(1, caption, title)
        axis.set_axis_off()
        axis.text(0.5, 0.5, "not run at this scale", ha="center", va="center", color="#555555")
        return save(page, stem)


def _draw_panel(
    figure: Figure, axis: Axes, at: dict[str, Any], hues: list[Any], grid: Axes_, tables: Mapping[str, pd.DataFrame]
) -> None:
    if isinstance(figure, Curves):
        _draw_curves(axis, figure, hues, tables["curves"], at)
    elif isinstance(figure, Final):
        _draw_final(axis, figure, hues, tables["final"], at, grid)
    elif isinstance(figure, Bars):
        _draw_bars(axis, figure, hues, tables["final"], at, grid)
    else:
        _draw_bound(axis, figure.x, figure, hues, tables["bound"], at)
    if isinstance(figure, Bars):
        axis.set_yscale("log" if figure.log else "linear")
        if not any(np.isfinite(bar.get_height()) for bar in axis.patches):  # type: ignore[attr-defined]
            axis.set_yticks([])
    else:
        _frame(axis, figure.log)


def _rows(frame: pd.DataFrame, metric: str, at: dict[str, Any], hue_axis: str | None, hue: Any) -> pd.DataFrame:
    at = at if hue_axis is None else {**at, hue_axis: hue}
    return frame[select(frame, at) & (frame["metric"] == metric)]


def _draw_curves(axis: Axes, figure: Curves, hues: list[Any], curves: pd.DataFrame, at: dict[str, Any]) -> None:
    for hue, look in looks(hues).items():
        rows = _rows(curves, figure.y, at, figure.hue, hue)
        rows = rows[rows["round"] >= figure.start].sort_values("round")
        x = rows["round"].to_numpy(float)
        if figure.x != "round":
            times = _rows(curves, figure.x, at, figure.hue, hue).set_index("round")["mean"]
            x = times.reindex(rows["round"]).to_numpy(float)
        label = None if figure.hue is None else legend_label(figure.hue, hue) + _diverged(rows)
        _band(axis, x, rows, {**look, "markevery": max(1, len(x) // 8)}, label)
    axis.set_xlabel(column_label(figure.x))
    axis.set_ylabel(column_label(figure.y))
    if figure.log_x:
        axis.set_xscale("log")
    elif figure.x == "round":
        _whole_numbers(axis)


def _draw_final(
    axis: Axes, figure: Final, hues: list[Any], final: pd.DataFrame, at: dict[str, Any], grid: Axes_
) -> None:
    places, names = _places(figure.x, grid)
    for hue, look in looks(hues).items():
        rows = _rows(final, figure.y, at, figure.hue, hue)
        rows = rows.set_index(rows[figure.x].map(_key)).reindex([_key(v) for v in grid[figure.x]])
        label = None if figure.hue is None else legend_label(figure.hue, hue) + _diverged(rows)
        _band(axis, places, rows, look, label)
    axis.set_xlabel(axis_label(figure.x))
    axis.set_ylabel(end_label(figure.y))
    if figure.log_x:
        axis.set_xscale("log")
        axis.minorticks_off()
    axis.set_xticks(places, names)


def _draw_bars(axis: Axes, figure: Bars, hues: list[Any], final: pd.DataFrame, at: dict[str, Any], grid: Axes_) -> None:
    points = grid[figure.x]
    width = 0.8 / len(hues)
    for number, (hue, look) in enumerate(looks(hues).items()):
        rows = _rows(final, figure.y, at, figure.hue, hue)
        rows = rows.set_index(rows[figure.x].map(_key)).reindex([_key(v) for v in points])
        x = np.arange(len(points)) + (number - (len(hues) - 1) / 2) * width
        mean = rows["mean"].to_numpy(float)
        low, high = _spread(rows)
        error = np.nan_to_num(np.abs(np.stack([mean - low, high - mean])))
        label = None if figure.hue is None else legend_label(figure.hue, hue) + _diverged(rows)
        finite = np.where(np.isinf(mean), np.nan, mean)
        axis.bar(x, finite, 0.92 * width, color=look["color"], label=label)
        axis.errorbar(x, finite, error, fmt="none", ecolor="#333333", elinewidth=0.9, capsize=2)
        for place in x[np.isinf(mean)]:  # a target that was not reached has no bar
            _note(axis, place, "not by all seeds", look["color"])
    names = [value_label(v, figure.x) for v in points]
    # names that would run into each other are written aslant
    slant: dict[str, Any] = {"rotation": 40, "ha": "right"} if sum(map(len, names)) * LETTER > WIDTH - 0.8 else {}
    axis.set_xticks(range(len(points)), names, **slant)
    axis.set_xlim(-0.6, len(points) - 0.4)
    axis.set_xlabel(axis_label(figure.x))
    axis.set_ylabel(end_label(figure.y))
    axis.grid(False, axis="x")


def _note(axis: Axes, place: float, text: str, colour: Any) -> None:
    """Upright text on the x axis at `place`, where there is nothing to draw."""
    at: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    axis.annotate(text, (place, 0), (0, 4), **at, rotation=90, ha="center", va="bottom", fontsize=7, color=colour)


def _draw_bound(
    axis: Axes, x: str, figure: FigureBase, hues: list[Any], bound: pd.DataFrame, at: dict[str, Any]
) -> None:
    """The bound where it is defined, its best point marked by a ring."""
    for hue, look in looks(hues).items():
        if isinstance(hue, float) and np.isinf(hue):
            continue
        rows = bound[select(bound, at if figure.hue is None else {**at, figure.hue: hue})]
        rows = rows[rows["bound"].notna()].sort_values(x)
        label = None if figure.hue is None else legend_label(figure.hue, hue)
        many = len(rows) > 12
        axis.plot(rows[x], rows["bound"], **{**look, "marker": "" if many else look["marker"]}, label=label)
        if len(rows):
            best = rows.iloc[int(rows["bound"].argmin())]
            axis.plot([best[x]], [best["bound"]], "o", mfc="white", mec=look["color"], ms=7, mew=1.6, zorder=5)
    axis.set_xlabel(axis_label(x))
    axis.set_ylabel(column_label("bound"))


def _band(axis: Axes, x: Any, rows: pd.DataFrame, look: dict[str, Any], label: str | None) -> None:
    """A line of means with a band: the interval, or with few seeds their range."""
    low, high = _spread(rows)
    axis.plot(x, rows["mean"].to_numpy(float), label=label, **look)
    axis.fill_between(x, low, high, color=look["color"], alpha=0.16, linewidth=0)


def _spread(rows: pd.DataFrame) -> tuple[Floats, Floats]:
    """Lower and upper end of what is drawn around a mean; a 95 % interval of two seeds would fill the figure."""
    few = rows["seeds"].to_numpy(float) < DECISIVE_SEEDS
    low = np.where(few, rows["least"].to_numpy(float), rows["low"].to_numpy(float))
    return low, np.where(few, rows["most"].to_numpy(float), rows["high"].to_numpy(float))


def _diverged(rows: pd.DataFrame) -> str:
    """`, 2 diverged`, for a legend; empty where none did."""
    worst = int(rows["diverged"].fillna(0).max()) if len(rows) else 0
    return f" ({worst} diverged)" if worst else ""


def _places(axis: str, grid: Axes_) -> tuple[Any, list[str]]:
    """Positions and names of an axis's values: numbers where they are, names one after another."""
    values = grid[axis]
    names = [value_label(v, axis) for v in values]
    numeric = all(isinstance(v, int | float) and np.isfinite(v) for v in values)
    return (np.asarray(values, float) if numeric else np.arange(len(values), dtype=float)), names


def _key(value: Any) -> str:
    """A value of an axis and its CSV form as the same text."""
    if isinstance(value, int | float | np.number):
        return f"{float(value):.10g}"
    return str(value)


def _frame(axis: Axes, log: bool) -> None:
    """Sets scale and range of the y axis, after all lines are drawn."""
    if log:
        axis.set_yscale("log")
    _look_at_means(axis, log)


def _log_ticks(axis: Axis, low: float, high: float, closest: tuple[int, ...] = (1, 2, 3, 5)) -> None:
    """Ticks of a logarithmic axis as plain numbers, at `closest` of each decade where there are few of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    few = high / low < 100
    axis.set_major_locator(LogLocator(subs=closest if few else (1,), numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _look_at_means(axis: Axes, log: bool) -> None:
    """Sets the y range by the lines: with two seeds a 95 % band may be many times as wide as all that is to be seen."""
    drawn = np.concatenate([np.asarray(line.get_ydata(), float) for line in axis.lines] or [np.empty(0)])
    drawn = drawn[np.isfinite(drawn) & ((drawn > 0) | (not log))]
    if len(drawn) == 0:
        return
    low, high = (np.log(drawn.min()), np.log(drawn.max())) if log else (drawn.min(), drawn.max())
    room = 0.12 * (high - low) or 0.05 * abs(high) or 0.5
    limits = np.array([low - room, high + room])
    axis.set_ylim(*(np.exp(limits) if log else limits))


def _whole_numbers(axis: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _share_y(axes: list[Axes]) -> None:
    low = min(axis.get_ylim()[0] for axis in axes)
    high = max(axis.get_ylim()[1] for axis in axes)
    for place, axis in enumerate(axes):
        axis.set_ylim(low, high)
        if place:
            axis.set_ylabel("")


__all__ = ["BoundCurves", "draw"]
