"""Parts that figures are drawn from: lines with their bands, ticks, ranges of axes, notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asyncfl.base.figure_style import looks
from asyncfl.base.quantities import Scale, scale_of
from asyncfl.experiments.columns import unit_of
from asyncfl.experiments.evidence.samples import Floats
from asyncfl.experiments.figures.coinciding import OWN
from asyncfl.experiments.grid import AxisValues, select
from asyncfl.experiments.intervals import OF_TWO
from asyncfl.experiments.labels import axis_label, column_label, legend_label, value_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

LEAST_TICKS, MOST_TICKS = 3, 10
"""Ticks of an axis."""
BELOW_ZERO = 0.03
"""Share of the axis that lies below 0 where no value does."""


def rows_of(frame: pd.DataFrame, metric: str, at: dict[str, Any], hue_axis: str | None, hue: Any) -> pd.DataFrame:
    """The rows of a long table of one metric at a point."""
    at = at if hue_axis is None else {**at, hue_axis: hue}
    return frame[select(frame, at) & (frame["metric"] == metric)]


def note(axis: Axes, place: float, text: str, colour: Any) -> None:
    """Upright text on the x axis at `place`, where there is nothing to draw."""
    at: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    axis.annotate(text, (place, 0), (0, 4), **at, rotation=90, ha="center", va="bottom", fontsize=7, color=colour)


def bound_lines(
    axis: Axes, x: str, hue_axis: str | None, hues: list[Any], bound: pd.DataFrame, at: dict[str, Any]
) -> None:
    """The bound where it is defined, its best point marked by a ring."""
    for hue, look in looks(hues).items():
        if isinstance(hue, float) and np.isinf(hue):
            continue
        rows = bound[select(bound, at if hue_axis is None else {**at, hue_axis: hue})]
        rows = rows[rows["bound"].notna()].sort_values(x)
        label = None if hue_axis is None else legend_label(hue_axis, hue)
        many = len(rows) > 12
        axis.plot(rows[x], rows["bound"], **{**look, "marker": "" if many else look["marker"]}, label=label)
        if len(rows):
            best = rows.iloc[int(rows["bound"].argmin())]
            axis.plot([best[x]], [best["bound"]], "o", mfc="white", mec=look["color"], ms=7, mew=1.6, zorder=5)
    axis.set_xlabel(axis_label(x))
    axis.set_ylabel(column_label("bound"))


def band(axis: Axes, x: Any, rows: pd.DataFrame, look: dict[str, Any], label: str | None) -> None:
    """A line of means with their intervals as a band, of two seeds with their own values as thin lines; values of one
    seed have neither."""
    axis.plot(x, rows["mean"].to_numpy(float), label=label, **look)
    low, high, own = spread(rows)
    bare = np.where(own, np.nan, low), np.where(own, np.nan, high)
    axis.fill_between(x, bare[0], bare[1], color=look["color"], alpha=0.12, linewidth=0)
    if own.any():
        for end in (low, high):
            axis.plot(x, np.where(own, end, np.nan), color=look["color"], linewidth=0.6, zorder=1.9, label=OWN)


def spread(rows: pd.DataFrame) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Lower and upper ends of what is drawn around means, and whether they are the values of two seeds.

    Of more seeds they are those of the 95 % interval. That of two is `OF_TWO` times as far and would fill the picture:
    where two are left of more, as the others diverged, nothing is drawn around their mean.
    """
    mean, low, high = (rows[name].to_numpy(float).copy() for name in ("mean", "low", "high"))
    two = (rows["seeds"] == 2).to_numpy(bool) & np.isfinite(low) & np.isfinite(high)
    low[two], high[two] = (mean[two] + (end[two] - mean[two]) / OF_TWO for end in (low, high))
    left = two & (rows["diverged"].fillna(0) > 0).to_numpy(bool)
    low[left] = high[left] = np.nan
    own = two & ~left
    return low, high, own


def scale_in(frame: pd.DataFrame, columns: Sequence[str], log: bool = False) -> Scale:
    """What the first of `columns` is written in at an axis, with those of its unit: by the largest mean in a table, or
    at a logarithmic axis by the middle one."""
    alike = [column for column in columns if unit_of(column) == unit_of(columns[0])]
    means = frame["mean"][frame["metric"].isin(alike)]
    means = means[np.isfinite(means)]
    return scale_of([means.median() if log else means.abs().max()], unit_of(columns[0]))


def divided(rows: pd.DataFrame, scale: Scale) -> pd.DataFrame:
    """The rows with mean and interval in units of a scale."""
    if scale.factor == 1:
        return rows
    return rows.assign(**{name: rows[name] / scale.factor for name in ("mean", "low", "high")})


def diverged_in_words(rows: pd.DataFrame) -> str:
    """`, 2 diverged`, for a legend; empty where none did."""
    worst = int(rows["diverged"].fillna(0).max()) if len(rows) else 0
    return f" ({worst} diverged)" if worst else ""


def places_of(axis: str, grid: AxisValues) -> tuple[Any, list[str]]:
    """Positions and names of an axis's values: numbers where they are, names one after another."""
    values = grid[axis]
    names = [value_label(v, axis) for v in values]
    numeric = all(isinstance(v, int | float) and np.isfinite(v) for v in values)
    return (np.asarray(values, float) if numeric else np.arange(len(values), dtype=float)), names


def key(value: Any) -> str:
    """A value of an axis and its CSV form as the same text."""
    if isinstance(value, int | float | np.number):
        return f"{float(value):.10g}"
    return str(value)


def frame(axis: Axes, log: bool) -> None:
    """Sets scale and range of the y axis, after all lines are drawn."""
    if log:
        axis.set_yscale("log")
    _look_at_means(axis, log)


def log_ticks(axis: Axis, low: float, high: float, closest: tuple[int, ...] = (1, 2, 3, 5)) -> None:
    """Ticks of a logarithmic axis as plain numbers, far ones as powers of ten; at least three where that can be.

    closest: steps of a decade where there are few of them; closer ones follow where these are too few.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    steps = [closest, (1, 2, 3, 5), tuple(range(1, 10))] if high / low < 100 else [(1,), (1, 3), closest]
    low, high = low * (1 - 1e-9), high * (1 + 1e-9)  # an axis that begins at a tick shows it
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    options = [np.sort(np.outer(decades, step).ravel()) for step in steps]
    options.append(np.asarray(MaxNLocator(4, min_n_ticks=LEAST_TICKS).tick_values(low, high)))
    ticks = next((at for at in options if ((at >= low) & (at <= high)).sum() >= LEAST_TICKS), options[-1])
    ticks = ticks[(ticks >= low) & (ticks <= high)]
    axis.set_major_locator(FixedLocator(ticks[:: -(-len(ticks) // MOST_TICKS)].tolist()))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: log_label(value)))


def several_ticks(axis: Axis) -> None:
    """Has an axis of numbers show at least three ticks; where they are fixed, they stay as they are."""
    from matplotlib.ticker import MaxNLocator

    if isinstance(locator := axis.get_major_locator(), MaxNLocator):
        locator.set_params(min_n_ticks=LEAST_TICKS)


def log_label(value: float) -> str:
    """A tick of a logarithmic axis: `0.003`, `500`, `10⁸` in mathematics."""
    exponent = round(np.log10(value)) if value > 0 else 0
    is_power = np.isclose(value, 10.0**exponent, rtol=1e-9, atol=0.0)
    return f"$10^{{{exponent}}}$" if is_power and not -3 <= exponent < 5 else f"{value:g}"


def _look_at_means(axis: Axes, log: bool) -> None:
    """Sets the y range by the lines: the interval of two seeds may be many times as wide as all that is to be seen."""
    look_at(axis, [np.asarray(line.get_ydata(), float) for line in axis.lines], log)


def look_at(axis: Axes, values: Sequence[Any], log: bool, base: float | None = None) -> None:
    """Sets the y range to hold `values` with some room, and `base`, at which it then begins."""
    drawn = np.concatenate([*values, np.empty(0)])
    drawn = drawn[np.isfinite(drawn) & ((drawn > 0) | (not log))]
    if len(drawn) == 0:
        return
    if base is not None:
        drawn = np.append(drawn, base)
    low, high = (np.log(drawn.min()), np.log(drawn.max())) if log else (drawn.min(), drawn.max())
    room = 0.12 * (high - low) or 0.05 * abs(high) or 1.0
    end = None if base is None else np.log(base) if log else base
    limits = np.array([low if low == end else low - room, high if high == end else high + room])
    if not log and low >= 0:  # counts and shares are never negative
        limits[0] = max(limits[0], -BELOW_ZERO * limits[1] if end is None else low)
    axis.set_ylim(*(np.exp(limits) if log else limits))


def whole_numbers(axis: Axes) -> None:
    """Ticks of the x axis at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def share_y(axes: list[Axes]) -> None:
    """Gives all axes the y range that holds those of all, named at the first alone."""
    low = min(axis.get_ylim()[0] for axis in axes)
    high = max(axis.get_ylim()[1] for axis in axes)
    for place, axis in enumerate(axes):
        axis.set_ylim(low, high)
        if place:
            axis.set_ylabel("")
