"""Parts that figures are drawn from: rows of tables, lines with their bands, ticks, ranges of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asyncfl.base.quantities import Scale, scale_of
from asyncfl.experiments.columns import unit_of
from asyncfl.experiments.csv_files import plain
from asyncfl.experiments.evidence.samples import Floats
from asyncfl.experiments.figures.coinciding import OWN
from asyncfl.experiments.grid import Where, select
from asyncfl.experiments.intervals import OF_TWO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

LEAST_TICKS, MOST_TICKS = 3, 10
"""Ticks of an axis."""
BELOW_ZERO = 0.03
"""Share of the axis that lies below 0 where no value does."""


def rows_of(frame: pd.DataFrame, metric: str, at: Where, scale: Scale | None = None) -> pd.DataFrame:
    """Return the rows of a long table of one metric at a point, with mean and interval in units of a scale."""
    rows = frame[select(frame, at) & (frame["metric"] == metric)]
    return rows if scale is None else divided(rows, scale)


def divided(rows: pd.DataFrame, scale: Scale) -> pd.DataFrame:
    if scale.factor == 1:
        return rows
    return rows.assign(**{name: rows[name] / scale.factor for name in ("mean", "low", "high")})


def key(value: Any) -> str:
    """Return the same text for a value of an axis and for its CSV form."""
    value = plain(value.item() if isinstance(value, np.generic) else value)
    return f"{float(value):.10g}" if isinstance(value, int | float) else str(value)


def band(axis: Axes, x: Any, rows: pd.DataFrame, look: dict[str, Any], label: str | None) -> None:
    """Draw a line of means with their intervals as a band, of two seeds with their own values as thin lines."""
    axis.plot(x, rows["mean"].to_numpy(float), label=label, **look)
    low, high, own = spread(rows)
    bare = np.where(own, np.nan, low), np.where(own, np.nan, high)
    axis.fill_between(x, bare[0], bare[1], color=look["color"], alpha=0.12, linewidth=0)
    if own.any():
        for end in (low, high):
            axis.plot(x, np.where(own, end, np.nan), color=look["color"], linewidth=0.6, zorder=1.9, label=OWN)


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


def diverged_in_words(rows: pd.DataFrame) -> str:
    """Return `, 2 diverged`, for a legend; empty where none did."""
    worst = int(rows["diverged"].fillna(0).max()) if len(rows) else 0
    return f" ({worst} diverged)" if worst else ""


def log_ticks(axis: Axis, low: float, high: float, closest: tuple[int, ...] = (1, 2, 3, 5)) -> None:
    """Set ticks of a logarithmic axis as plain numbers, far ones as powers of ten; at least three where that can be.

    closest: steps of a decade where there are few of them; closer ones follow where these are too few.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

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
    """Set the y range to hold `values` with some room, and `base`, at which it then begins.

    Not by the intervals: that of two seeds may be many times as wide as everything else.
    """
    drawn = np.concatenate([*(np.asarray(of, float) for of in values), np.empty(0)])
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


def share_y(axes: list[Axes]) -> None:
    """Give all axes the y range that holds those of all, named at the first alone."""
    ranges = np.array([axis.get_ylim() for axis in axes])
    for place, axis in enumerate(axes):
        axis.set_ylim(ranges[:, 0].min(), ranges[:, 1].max())
        if place:
            axis.set_ylabel("")
