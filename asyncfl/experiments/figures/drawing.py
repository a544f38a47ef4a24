"""Parts that figures are drawn from: rows of tables, lines with their bands, ticks, ranges of axes.

Where lines lie on each other, their colours take turns, dash by dash, and their markers stand side by side, so that no
line hides another and none is drawn where it is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asyncfl.base.quantities import Scale, scale_of
from asyncfl.experiments.csv_files import plain
from asyncfl.experiments.evidence.p_values import Floats
from asyncfl.experiments.experiment_columns import range_of, unit_of
from asyncfl.experiments.grid import Where, select
from asyncfl.experiments.intervals import OF_TWO
from asyncfl.experiments.labels import absent_label
from asyncfl.results.figure_style import LETTER, WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.lines import Line2D

LEAST_TICKS, MOST_TICKS = 3, 10
"""Ticks of an axis."""
BESIDE = 0.8
"""Inches of a panel left of its axes, for the ticks and the label of the y axis."""
BELOW_ZERO = 0.03
"""Share of the axis that lies below 0 where no value does."""
NEAR = 0.8
"""Points between lines that look like one: half of a line's width."""
STEP = 1.0
"""Points between the places at which lines are compared."""
SHORTEST = 8.0
"""Points of the shortest stretch that is redrawn: lines that only cross share less."""
DASH = 3.0
"""Length of a colour's turn, in widths of the line."""
ASIDE_BARS = 6.0
"""Points between error bars that would lie on each other."""
ASIDE, ROOM = 4.0, 30.0
"""Points between markers that would lie on each other, and those that all of them may take together."""
CAPS = "_nolegend_"
"""Label that Matplotlib gives to the caps of error bars."""
KEEP: dict[str, Any] = {"scalex": False, "scaley": False}
"""Leaves the ranges of the axes unchanged."""
OWN = "_seeds"
"""Label of lines that are no means: seeds' own values, which may lie anywhere."""

NOTE = re.compile(r" \((\d+ diverged|not by all seeds|−?∞)\)$")
"""What `entry` adds to the name of a series."""


def rows_of(frame: pd.DataFrame, metric: str, at: Where, scale: Scale | None = None) -> pd.DataFrame:
    """Return the rows of a long table of one metric at a point, with mean and interval in units of a scale."""
    rows = frame[select(frame, at) & (frame["metric"] == metric)]
    return rows if scale is None else divided(within_range(rows), scale)


def within_range(rows: pd.DataFrame) -> pd.DataFrame:
    """End the intervals of rows at the least and the largest value that their columns can have.

    No interval ends short of its mean. Rows of two seeds stay: the seeds' own values follow from
    their intervals, see `spread`.
    """
    ranges = {metric: range_of(metric) for metric in rows["metric"].unique()}
    least, most = (rows["metric"].map({name: of[end] for name, of in ranges.items()}).astype(float) for end in (0, 1))
    low = np.fmax(rows["low"], np.fmin(least, rows["mean"]))
    high = np.fmin(rows["high"], np.fmax(most, rows["mean"]))
    cut = (rows["seeds"] != 2) & rows["low"].notna()
    return rows.assign(low=rows["low"].mask(cut, low), high=rows["high"].mask(cut, high))


def divided(rows: pd.DataFrame, scale: Scale) -> pd.DataFrame:
    if scale.factor == 1:
        return rows
    return rows.assign(**{name: rows[name] / scale.factor for name in ("mean", "low", "high")})


def key(value: Any) -> str:
    """Return the same text for a value of an axis and for its CSV form."""
    value = plain(value.item() if isinstance(value, np.generic) else value)
    return f"{float(value):.10g}" if isinstance(value, int | float) else str(value)


def band(
    axis: Axes,
    x: Any,
    rows: pd.DataFrame,
    look: dict[str, Any],
    label: str | None,
    floor: float | None = None,
    aside: Floats | None = None,
) -> None:
    """Draw a line of means with their intervals as a band, of two seeds with their own values as thin lines.

    An interval without a neighbour has an error bar, as a band of one point is not seen, and own values without
    neighbours are dashes. floor: lowest end of intervals at a logarithmic axis. aside: (n,) points by which each single
    point is moved across; None: none is.
    """
    from matplotlib.transforms import ScaledTranslation

    mean = rows["mean"].to_numpy(float)
    [line] = axis.plot(x, mean, label=label, **look)
    low, high, own = spread(rows)
    if floor is not None:
        low = np.where(own, low, np.fmin(np.fmax(low, floor), high))
        low[~own & ~(high > 0)] = np.nan  # the logarithm has nothing of it
    known = np.isfinite(low) & np.isfinite(high)
    bars, dashes = single(known & ~own), single(known & own)
    bare = [np.where(known & ~own & ~bars, end, np.nan) for end in (low, high)]
    axis.fill_between(x, bare[0], bare[1], color=look["color"], alpha=0.12, linewidth=0)
    if own.any():
        for end in (low, high):
            axis.plot(x, np.where(own, end, np.nan), color=look["color"], linewidth=0.6, zorder=1.9, label=OWN)
    moved = np.zeros(len(mean), bool) if aside is None else aside != 0
    for place in np.flatnonzero(bars | dashes | moved):
        across, style = np.asarray(x, float)[[place]], {"color": look["color"], "label": OWN}
        if aside is not None and moved[place]:
            step = ScaledTranslation(float(aside[place]) / 72, 0, axis.figure.dpi_scale_trans)
            style["transform"] = axis.transData + step
            axis.plot(across, mean[[place]], linestyle="", marker=look["marker"], **style)
        if bars[place]:
            middle, half = (high + low)[[place]] / 2, (high - low)[[place]] / 2
            axis.errorbar(across, middle, half, fmt="none", elinewidth=0.9, capsize=2, zorder=1.9, **style)
        if dashes[place]:
            axis.plot(np.repeat(across, 2), [low[place], high[place]], "_", markersize=6, **style)
    if moved.any():
        line.set_markevery([place for place in _marked_places(line) if not moved[place]])


def single(known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which of the points that are `known` (n,) have no known neighbour."""
    alone = known.copy()
    alone[1:] &= ~known[:-1]
    alone[:-1] &= ~known[1:]
    return alone


def asides(series: Sequence[pd.DataFrame]) -> Floats:
    """Return by how many points (series, places) single points with an interval are moved across, so that error bars at
    one place stand side by side."""
    means, lows = (np.array([rows[name].to_numpy(float) for rows in series]) for name in ("mean", "low"))
    alone = np.array([single(np.isfinite(of)) for of in means]) & np.isfinite(lows)
    several, turn = alone.sum(axis=0), alone.cumsum(axis=0) - 1
    apart = np.minimum(ASIDE_BARS, ROOM / np.maximum(several, 1))
    return np.where(alone, apart * (turn - (several - 1) / 2), 0.0)


def floor_of(rows: pd.DataFrame) -> float | None:
    """Return the lowest end of the intervals of some rows at a logarithmic axis; None: no mean is above 0.

    It is the lowest value that is drawn, at most a decade below the means.
    """
    means = rows["mean"].to_numpy(float)
    means = means[np.isfinite(means) & (means > 0)]
    if not len(means):
        return None
    low, *_ = spread(rows)
    return max(float(min(means.min(), low[low > 0].min(initial=np.inf))), float(means.min()) / 10)


def cut_ends(rows: pd.DataFrame, floor: float | None) -> tuple[bool, bool, bool]:
    """Return whether some interval of rows ends at 0 and at 1, where its column ends, and at `floor`.

    A t interval is as wide below its mean as above it, in tables of before also of one that had been cut on one side.
    """
    rows = rows[(rows["seeds"] > 2) & rows["low"].notna()]
    drawn, mean = within_range(rows), rows["mean"]
    whole = np.fmax(mean - rows["low"], rows["high"] - mean) * (1 - 1e-6)
    low, high = (mean - drawn["low"] < whole).any(), (drawn["high"] - mean < whole).any()
    return bool(low), bool(high), floor is not None and bool((drawn["low"] < floor * (1 - 1e-6)).any())


def spread(rows: pd.DataFrame) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return lower and upper ends of what is drawn around means, and whether they are the values of two seeds.

    Of more seeds they are those of the 95 % interval. That of two is `OF_TWO` times as far and would fill the picture:
    where two are left of more, as the others diverged, nothing is drawn around their mean.
    """
    mean, low, high = (rows[name].to_numpy(float).copy() for name in ("mean", "low", "high"))
    two = (rows["seeds"] == 2).to_numpy(bool) & np.isfinite(low) & np.isfinite(high)
    low[two], high[two] = (mean[two] + (end[two] - mean[two]) / OF_TWO for end in (low, high))
    left = two & (rows["diverged"].fillna(0) > 0).to_numpy(bool)
    low[left] = high[left] = np.nan
    return low, high, two & ~left


def scale_in(frame: pd.DataFrame, columns: Sequence[str], log: bool = False) -> Scale:
    """Return the scale of the first of `columns` at an axis, with those of its unit: by the largest mean in a table, or
    at a logarithmic axis by the middle one."""
    alike = [column for column in columns if unit_of(column) == unit_of(columns[0])]
    means = frame["mean"][frame["metric"].isin(alike)]
    means = means[np.isfinite(means)]
    return scale_of([means.median() if log else means.abs().max()], unit_of(columns[0]))


def entry(label: str | None, rows: pd.DataFrame, metric: str) -> str | None:
    """Return the entry of a series in the legend, with how many seeds diverged, or why no value is drawn.

    None: the series has no entry, as nothing of it was measured, or the legend names no series.
    """
    if label is None:
        return None
    means, diverged = rows["mean"].to_numpy(float), rows["diverged"].fillna(0).to_numpy(int)
    if np.isfinite(means).any() or diverged.any():
        return f"{label} ({diverged.max()} diverged)" if diverged.any() else label
    infinite = means[np.isinf(means)]
    return f"{label} ({absent_label(metric, float(infinite[0]), 0)})" if len(infinite) else None


def interval_ends(axis: Axes) -> Floats:
    """Return the ends of all intervals that are drawn as bands or bars."""
    paths = [path for drawn in axis.collections for path in drawn.get_paths()]
    return np.concatenate([np.empty(0), *(np.asarray(path.vertices, float)[:, 1] for path in paths)])


def log_ticks(axis: Axis, low: float, high: float, closest: tuple[int, ...] = (1, 2, 3, 5)) -> None:
    """Set ticks of a logarithmic axis as plain numbers, far ones as powers of ten; at least three where that can be.

    closest: steps of a decade where there are few of them; closer ones follow where these are too few.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    if not 0 < low < high:  # nothing is drawn that a logarithm has
        axis.set_major_locator(NullLocator())
        axis.set_minor_locator(NullLocator())
        return
    steps = [closest, (1, 2, 3, 5), tuple(range(1, 10))] if high / low < 100 else [(1,), (1, 3), closest]
    low, high = low * (1 - 1e-9), high * (1 + 1e-9)  # an axis that begins at a tick shows it
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    options = [np.sort(np.outer(decades, step).ravel()) for step in steps]
    options.append(np.asarray(MaxNLocator(4, min_n_ticks=LEAST_TICKS).tick_values(low, high)))
    options = [at[(at >= low) & (at <= high)] for at in options]
    ticks = next((at for at in options if len(at) >= LEAST_TICKS), options[-1])
    axis.set_major_locator(FixedLocator(ticks[:: -(-len(ticks) // MOST_TICKS)].tolist()))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _log_label(value)))


def _log_label(value: float) -> str:
    """Return a tick of a logarithmic axis: `0.003`, `500`, `10⁸` in mathematics."""
    exponent = round(np.log10(value)) if value > 0 else 0
    is_power = np.isclose(value, 10.0**exponent, rtol=1e-9, atol=0.0)
    return f"$10^{{{exponent}}}$" if is_power and not -3 <= exponent < 5 else f"{value:g}"


def look_at(axis: Axes, values: Sequence[Any], log: bool, base: float | None = None) -> None:
    """Set the y range to hold `values` and the intervals around them with some room, and `base`, at which it then
    begins; where nothing was measured, say so.

    A logarithmic axis never reaches 0, where intervals may end: it begins at most a decade below the values.
    """
    drawn = np.concatenate([*(np.asarray(of, float) for of in values), np.empty(0)])
    drawn = drawn[np.isfinite(drawn) & ((drawn > 0) | (not log))]
    if len(drawn) == 0:
        note: dict[str, Any] = {"ha": "center", "va": "center", "color": "#555555", "transform": axis.transAxes}
        axis.text(0.5, 0.5, "no finite value", **note)
        return
    ends = interval_ends(axis)
    ends = ends[np.isfinite(ends)]
    drawn = np.append(drawn, np.maximum(ends, base or drawn.min() / 10) if log else ends)
    if base is not None:
        drawn = np.append(drawn, base)
    low, high = (np.log(drawn.min()), np.log(drawn.max())) if log else (drawn.min(), drawn.max())
    room = 0.12 * (high - low) or 0.05 * abs(high) or 1.0
    end = None if base is None else np.log(base) if log else base
    limits = np.array([low if low == end else low - room, high if high == end else high + room])
    if not log and low >= 0:  # counts and shares are never negative
        limits[0] = max(limits[0], -BELOW_ZERO * limits[1] if end is None else low)
    axis.set_ylim(*(np.exp(limits) if log else limits))


def name_ticks(axis: Axes, places: Sequence[float], names: Sequence[str]) -> None:
    """Name places on the x axis; names that would run into each other are written aslant."""
    page: Any = axis.figure
    across = min(WIDTH, page.get_size_inches()[0] / max(len(page.axes), 1)) - BESIDE
    step = across / max(len(names), 1)
    crowded = any((len(left) + len(right)) / 2 * LETTER > step for left, right in pairwise(names))
    slant: dict[str, Any] = {"rotation": 40, "ha": "right"} if crowded else {}
    axis.set_xticks(list(places), list(names), **slant)


def share_y(axes: list[Axes]) -> None:
    """Give all axes the y range that holds those of all, named at the first alone."""
    ranges = np.array([axis.get_ylim() for axis in axes])
    for place, axis in enumerate(axes):
        axis.set_ylim(ranges[:, 0].min(), ranges[:, 1].max())
        if place:
            axis.set_ylabel("")


def take_turns(axis: Axes) -> None:
    """Redraw the stretches that lines of `axis` share; to be called after its ranges are set."""
    marked = [line for line in axis.lines if line.get_label() not in (OWN, CAPS) and _goes_right(line)]
    lines = [line for line in marked if line.get_linestyle() != "None"]
    if len(lines) > 1:
        _draw_in_turns(axis, lines)
    _set_markers_aside(axis, [line for line in marked if line.get_marker() not in ("", "None", None)])


def _goes_right(line: Line2D) -> bool:
    x = np.asarray(line.get_xdata(), float)
    return len(x) > 1 and bool(np.isfinite(x).all()) and bool((np.diff(x) >= 0).all())


def _points(axis: Axes, line: Line2D) -> Floats:
    """Return places (points, 2) of a line's points; the second NaN where it has no value at the axis."""
    x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
    known = np.isfinite(y) & ((y > 0) | (axis.get_yscale() != "log"))
    # what is not finite would take the place across with it
    points = axis.transData.transform(np.column_stack([x, np.where(known, y, axis.get_ylim()[0])]))
    return np.column_stack([points[:, 0], np.where(known, points[:, 1], np.nan)])


def _draw_in_turns(axis: Axes, lines: Sequence[Line2D]) -> None:
    drawn = [_points(axis, line) for line in lines]
    step = STEP * axis.figure.dpi / 72
    first, last = min(float(points[0, 0]) for points in drawn), max(float(points[-1, 0]) for points in drawn)
    across = np.arange(first, last + step, step).clip(max=last)
    # (lines, columns); NaN where a line has no value
    heights = np.array([np.interp(across, points[:, 0], points[:, 1], left=np.nan, right=np.nan) for points in drawn])
    for members, begin, end in _stretches(heights):
        if (end - begin) * STEP < SHORTEST:
            continue
        for turn, number in enumerate(members):
            points = np.column_stack([across[begin : end + 1], heights[number, begin : end + 1]])
            # a dash pattern that begins so far in has its colour come after those before it
            whole = DASH * len(members)
            style = (DASH * (len(members) - turn) % whole, (DASH, whole - DASH))
            look: dict[str, Any] = {"color": lines[number].get_color(), "linewidth": lines[number].get_linewidth()}
            look |= {"linestyle": style, "zorder": 2.1, "label": OWN, "dash_capstyle": "butt"}
            axis.plot(*axis.transData.inverted().transform(points).T, **look, **KEEP)


def _stretches(heights: Floats) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Yield (lines, first column, last column) of all stretches at which the same two or more lie on each other."""
    open_at: dict[tuple[int, ...], int] = {}
    for column in range(heights.shape[1] + 1):
        now = set() if column == heights.shape[1] else set(_together(heights[:, column]))
        for members in [one for one in open_at if one not in now]:
            yield members, open_at.pop(members), column - 1
        for members in sorted(now):
            open_at.setdefault(members, column)


def _together(heights: Floats) -> list[tuple[int, ...]]:
    """Return the groups of two or more lines that are near each other."""
    known = np.flatnonzero(np.isfinite(heights))
    order = known[np.argsort(heights[known], kind="stable")]
    groups = np.split(order, np.flatnonzero(np.diff(heights[order]) > NEAR) + 1)
    return [tuple(sorted(group.tolist())) for group in groups if len(group) > 1]


def _set_markers_aside(axis: Axes, lines: Sequence[Line2D]) -> None:
    """Move markers at the same place beside each other."""
    from matplotlib.transforms import ScaledTranslation

    at: dict[tuple[int, int], list[tuple[Line2D, int]]] = {}
    for line in lines:
        points = _points(axis, line)
        for place in _marked_places(line):
            if np.isfinite(points[place]).all():
                x, y = np.rint(points[place] / (4 * NEAR)).astype(int).tolist()
                at.setdefault((x, y), []).append((line, place))
    for found in (found for found in at.values() if len(found) > 1):
        apart = min(ASIDE, ROOM / len(found))
        for turn, (line, place) in enumerate(found):
            line.set_markevery([other for other in _marked_places(line) if other != place])
            aside = ScaledTranslation(apart * (turn - (len(found) - 1) / 2) / 72, 0, axis.figure.dpi_scale_trans)
            look: dict[str, Any] = {"color": line.get_color(), "marker": line.get_marker(), "linestyle": ""}
            x, y = (np.asarray(data, float)[[place]] for data in line.get_data())
            axis.plot(x, y, **look, label=OWN, transform=axis.transData + aside, **KEEP)


def _marked_places(line: Line2D) -> list[int]:
    every, points = line.get_markevery(), len(np.asarray(line.get_xdata()))
    return list(every) if isinstance(every, list) else list(range(points))[:: every if isinstance(every, int) else 1]
