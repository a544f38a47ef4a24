"""Lines that lie on each other: their colours take turns, dash by dash, and their markers stand side by side, so that
no line hides another and none is drawn where it is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

Floats = NDArray[np.float64]

NEAR = 0.8
"""Points between lines that look like one: half of a line's width."""
STEP = 1.0
"""Points between the places at which lines are compared."""
SHORTEST = 8.0
"""Points of the shortest stretch that is redrawn: lines that only cross share less."""
DASH = 3.0
"""Length of a colour's turn, in widths of the line."""
ASIDE, ROOM = 4.0, 30.0
"""Points between markers that would lie on each other, and those that all of them may take together."""
KEEP: dict[str, Any] = {"scalex": False, "scaley": False}
"""Leaves the ranges of the axes unchanged."""
OWN = "_seeds"
"""Label of lines that are no means: seeds' own values, which may lie anywhere."""


def take_turns(axis: Axes) -> None:
    """Redraw the stretches that lines of `axis` share; to be called after its ranges are set."""
    marked = [line for line in axis.lines if line.get_label() != OWN and _goes_right(line)]
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
