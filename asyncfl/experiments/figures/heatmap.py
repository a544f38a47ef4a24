"""Heat maps: final values over two axes of names, each number written into its cell."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from asyncfl.base.quantities import Scale, number, with_unit
from asyncfl.experiments.evidence.p_values import Floats
from asyncfl.experiments.experiment_columns import unit_of
from asyncfl.experiments.figures.base import FigureBase, in_words
from asyncfl.experiments.figures.drawing import key, rows_of, scale_in
from asyncfl.experiments.grid import AxisName, AxisValues, Reference, Tables, Where, describe, restricted
from asyncfl.experiments.labels import axis_label, end_label, legend_label, value_label
from asyncfl.results.figure_style import LETTER, canvas, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = (0.62, 0.23)
"""Inches of one cell."""
ROOM = (1.3, 0.75)
"""Inches beside and below the cells, for the axes' labels and the colour bar."""
BAR = 0.14
"""Inches of the colour bar's width; it is as high as the map."""


class Heatmap(FigureBase):
    """The value after the last round as a coloured table with its numbers written in, for two axes of names."""

    own_values: ClassVar[str] = ""

    kind: Literal["heatmap"] = "heatmap"
    x: AxisName
    """Axis across."""
    rows: AxisName
    """Axis down."""
    y: Annotated[str, Reference("ends")] = "test_accuracy"
    """Column of the values after the last round."""
    against: Annotated[dict[str, Any], Reference("where")] = Field(default_factory=dict)
    """Axis -> value: shown is what is lost against the cell there, its value less this one's; none: the value."""

    @property
    def compared_with(self) -> Where:
        return self.against

    def is_run(self, grid: AxisValues) -> bool:
        return super().is_run(grid) and all(restricted(grid, self.against).values())

    def shown(self) -> str:
        lost = f" lost against {describe(self.against)}," if self.against else ""
        return f"{end_label(self.y)}{lost} by {in_words(self.rows)} and {in_words(self.x)}".replace("$", "")

    def draw_page(self, grid: AxisValues, tables: Tables, caption: str, title: str, stem: Path) -> list[Path]:
        """Draw as `FigureBase.draw_page`; all panels have one colour scale. A cell without a value is empty, a diverged
        one says so."""
        from matplotlib.ticker import MaxNLocator

        final, axis = tables["final"], self.panels
        places: list[Where] = [{**self.where, axis: v} for v in grid[axis]] if axis else [self.where]
        percent = unit_of(self.y) == "share"
        scale = Scale(0.01, "points" if self.against else "%") if percent else scale_in(final, [self.y])
        values = [self.values(grid, at, final) / scale.factor for at in places]
        across, down = ([value_label(v, axis) for v in grid[axis]] for axis in (self.x, self.rows))
        beside, below = (max(map(len, names)) * LETTER for names in (down, across))
        size = (CELL[0] * len(across) + ROOM[0] + beside, CELL[1] * len(down) + ROOM[1] + 0.7 * below)
        known = np.concatenate([each[np.isfinite(each)] for each in values])
        whole = bool((known == np.round(known)).all())
        low, high = (known.min(initial=0.0), known.max(initial=1.0)) if self.against or not percent else (0.0, 100.0)
        with styled():
            page, axes = canvas(len(places), caption, title, size)
            slant: dict[str, Any] = {"rotation": 40, "ha": "right"} if below + LETTER > CELL[0] else {}
            for place, (panel, at, shown) in enumerate(zip(axes, places, values, strict=True)):
                image = _draw(panel, shown, low, high, whole)
                panel.set_xticks(range(len(across)), across, **slant)
                panel.set_yticks(range(len(down)), down if place == 0 else [""] * len(down))
                panel.set_xlabel(axis_label(self.x))
                panel.set_ylabel(axis_label(self.rows) if place == 0 else "")
                if axis:
                    panel.set_title(legend_label(axis, at[axis]))
            tall = CELL[1] * len(down)
            label = with_unit(end_label(self.y) + (" lost" if self.against else ""), scale)
            label = textwrap.fill(label, max(int(tall / LETTER), 12))
            bar = page.colorbar(image, ax=axes, label=label, aspect=tall / BAR, pad=0.01)
            bar.locator = MaxNLocator(4, min_n_ticks=3, integer=not percent and whole)
            bar.update_ticks()
            return save(page, stem)

    def values(self, grid: AxisValues, at: Where, final: pd.DataFrame) -> Floats:
        """Return means (rows, columns) over the seeds that did not diverge; NaN: not run, infinite: all diverged.

        Of what is lost: infinite where any seed diverged, as it has lost everything, and minus infinite where one of
        the cell that it is lost against did.
        """

        def means(fixed: Where) -> Floats:
            rows = rows_of(final, self.y, {**at, **fixed})
            gone = (rows["seeds"] == 0) | ((rows["diverged"] > 0) & bool(self.against))
            names = [rows[self.rows].map(key), rows[self.x].map(key)]
            table = rows["mean"].mask(gone, np.inf).groupby(names).first().unstack()
            index, columns = ([key(fixed.get(axis, v)) for v in grid[axis]] for axis in (self.rows, self.x))
            return table.reindex(index=index, columns=columns).to_numpy(np.float64)

        own = means({})
        if not self.against:
            return own
        reference = means(self.against)
        lost = np.where(np.isinf(reference), -np.inf, reference - np.where(np.isinf(own), 0.0, own))
        return np.where(np.isinf(own), own, lost)


def _draw(axis: Axes, values: Floats, low: float, high: float, whole: bool) -> Any:
    finite = np.where(np.isfinite(values), values, np.nan)
    image = axis.imshow(finite, cmap="viridis", vmin=low, vmax=high, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        dark = np.isfinite(value) and (value - low) < 0.6 * (high - low)
        places = 0 if whole else 1
        text = f"{round(value, places) + 0.0:.{places}f}" if abs(value) < 1000 else number(value)
        text = {np.inf: "diverged", -np.inf: "reference\ndiverged"}.get(value, text)
        size = 6 if np.isinf(value) else 7
        axis.text(j, i, text, ha="center", va="center", fontsize=size, color="white" if dark else "black")
    axis.grid(False)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    return image
