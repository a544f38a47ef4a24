"""Heat maps: final values over two axes of names, each number written into its cell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asyncfl.analysis.grid import Floats, select
from asyncfl.analysis.labels import axis_label, end_label, legend_label, number, value_label
from asyncfl.analysis.style import canvas, save, styled
from asyncfl.experiment.figure import Heatmap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = (0.62, 0.23)
"""Inches of one cell."""
ROOM = (1.3, 0.75)
"""Inches beside and below the cells, for the axes' labels and the colour bar."""
LETTER = 0.068
"""Inches of a letter of a name."""
PERCENT = ("accuracy", "share", "precision", "recall", "success")
"""Words of columns that are shares of one: written in per cent."""


def draw_heatmap(
    figure: Heatmap,
    grid: dict[str, tuple[Any, ...]],
    final: pd.DataFrame,
    caption: str,
    title: str,
    stem: str | Path,
) -> list[Path]:
    """Writes `stem`.svg and .png and returns their paths; all panels have one colour scale.

    grid: axis -> the values of it that are shown. final: the experiment's table of that name. A cell with no value is
    empty, a diverged one says so.
    """
    panels: list[Any] = list(grid[figure.panels]) if figure.panels else [None]
    across, down = list(grid[figure.x]), list(grid[figure.rows])
    names = {figure.rows: down, figure.x: across}
    percent = any(word in figure.y for word in PERCENT)
    values = [_values(figure, panel, across, down, final) * (100 if percent else 1) for panel in panels]
    with styled():
        beside, below = (max(len(value_label(v, axis)) for v in of) * LETTER for axis, of in names.items())
        # names across are written aslant
        size = (CELL[0] * len(across) + ROOM[0] + beside, CELL[1] * len(down) + ROOM[1] + 0.7 * below)
        page, axes = canvas(len(panels), caption, figure.title or title, size)
        known = np.concatenate([each[np.isfinite(each)] for each in values])
        low, high = (0.0, 100.0) if percent else (known.min(initial=0.0), known.max(initial=1.0))
        image: Any = None
        for place, (axis, panel, shown) in enumerate(zip(axes, panels, values, strict=True)):
            image = _draw(axis, shown, low, high)
            axis.set_xticks(range(len(across)), [value_label(v, figure.x) for v in across], rotation=40, ha="right")
            labels = [value_label(v, figure.rows) for v in down]
            axis.set_yticks(range(len(down)), labels if place == 0 else [""] * len(down))
            axis.set_xlabel(axis_label(figure.x))
            axis.set_ylabel(axis_label(figure.rows) if place == 0 else "")
            if figure.panels:
                axis.set_title(legend_label(figure.panels, panel))
        label = end_label(figure.y) + (" (%)" if percent else "")
        page.colorbar(image, ax=axes, label=label, shrink=0.8, pad=0.01)
        return save(page, stem)


def _values(figure: Heatmap, panel: Any, across: list[Any], down: list[Any], final: pd.DataFrame) -> Floats:
    """(rows, columns) means; NaN where nothing was run, infinite where all seeds diverged."""
    at = dict(figure.where) if figure.panels is None else {**figure.where, figure.panels: panel}
    rows = final[select(final, at) & (final["metric"] == figure.y)]
    values = np.full((len(down), len(across)), np.nan)
    for i, row in enumerate(down):
        for j, column in enumerate(across):
            found = rows[select(rows, {figure.rows: row, figure.x: column})]
            if len(found):
                one = found.iloc[0]
                values[i, j] = np.inf if one["seeds"] == 0 else one["mean"]
    return values


def _draw(axis: Axes, values: Floats, low: float, high: float) -> Any:
    image = axis.imshow(
        np.where(np.isfinite(values), values, np.nan), cmap="viridis", vmin=low, vmax=high, aspect="auto"
    )
    for (i, j), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        dark = np.isfinite(value) and (value - low) < 0.6 * (high - low)
        text = "diverged" if np.isinf(value) else f"{value:.1f}" if abs(value) < 1000 else number(value)
        size = 6 if np.isinf(value) else 7
        axis.text(j, i, text, ha="center", va="center", fontsize=size, color="white" if dark else "black")
    axis.grid(False)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    return image
