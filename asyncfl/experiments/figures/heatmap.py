"""Heat maps: final values over two axes of names, each number written into its cell."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from asyncfl.base.figure_style import LETTER, canvas, save, styled
from asyncfl.base.quantities import Scale, number, with_unit
from asyncfl.experiments.columns import unit_of
from asyncfl.experiments.evidence.samples import Floats
from asyncfl.experiments.figures.base import FigureBase, in_words
from asyncfl.experiments.figures.drawing import scale_in
from asyncfl.experiments.grid import AxisValues, Tables, describe, restricted, select
from asyncfl.experiments.labels import axis_label, end_label, legend_label, value_label

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
    x: str
    """Axis across."""
    rows: str
    """Axis down."""
    y: str = "test_accuracy"
    """Column of the values after the last round."""
    against: dict[str, Any] = Field(default_factory=dict)
    """Axis -> value: shown is what is lost against the cell there, its value less this one's; none: the value."""

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        compared = [("against", axis) for axis in self.against]
        return [("x", self.x), ("rows", self.rows), *compared, *super().axes_named]

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        compared = [("against", axis, value) for axis, value in self.against.items()]
        return [*super().values_named, *compared]

    def is_run(self, grid: AxisValues) -> bool:
        return super().is_run(grid) and all(restricted(grid, self.against).values())

    def shown(self) -> str:
        lost = f" lost against {describe(self.against)}," if self.against else ""
        return f"{end_label(self.y)}{lost} by {in_words(self.rows)} and {in_words(self.x)}".replace("$", "")

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        return [("y", "ends", self.y)]

    def draw_page(self, grid: AxisValues, tables: Tables, caption: str, title: str, stem: Path) -> list[Path]:
        """As `FigureBase.draw_page`; all panels have one colour scale. A cell with no value is empty, a diverged one
        says so."""
        panels: list[Any] = list(grid[self.panels]) if self.panels else [None]
        across, down = list(grid[self.x]), list(grid[self.rows])
        names = {self.rows: down, self.x: across}
        percent = unit_of(self.y) == "share"
        scale = Scale(0.01, "points" if self.against else "%") if percent else scale_in(tables["final"], [self.y])
        values = [self._values(panel, across, down, tables["final"]) / scale.factor for panel in panels]
        from matplotlib.ticker import MaxNLocator

        with styled():
            beside, below = (max(len(value_label(v, axis)) for v in of) * LETTER for axis, of in names.items())
            beside_each_other = below + LETTER
            size = (CELL[0] * len(across) + ROOM[0] + beside, CELL[1] * len(down) + ROOM[1] + 0.7 * below)
            page, axes = canvas(len(panels), caption, title, size)
            known = np.concatenate([each[np.isfinite(each)] for each in values])
            low, high = (
                (0.0, 100.0) if percent and not self.against else (known.min(initial=0.0), known.max(initial=1.0))
            )
            image: Any = None
            whole = bool((known == np.round(known)).all())
            for place, (axis, panel, shown) in enumerate(zip(axes, panels, values, strict=True)):
                image = _draw(axis, shown, low, high, whole)
                slant: dict[str, Any] = {"rotation": 40, "ha": "right"} if beside_each_other > CELL[0] else {}
                axis.set_xticks(range(len(across)), [value_label(v, self.x) for v in across], **slant)
                labels = [value_label(v, self.rows) for v in down]
                axis.set_yticks(range(len(down)), labels if place == 0 else [""] * len(down))
                axis.set_xlabel(axis_label(self.x))
                axis.set_ylabel(axis_label(self.rows) if place == 0 else "")
                if self.panels:
                    axis.set_title(legend_label(self.panels, panel))
            label = with_unit(end_label(self.y) + (" lost" if self.against else ""), scale)
            tall = CELL[1] * len(down)
            said = textwrap.fill(label, max(int(tall / LETTER), 12))
            bar = page.colorbar(image, ax=axes, label=said, aspect=tall / BAR, pad=0.01)
            bar.locator = MaxNLocator(4, min_n_ticks=3, integer=not percent and whole)
            bar.update_ticks()
            return save(page, stem)

    def _values(self, panel: Any, across: list[Any], down: list[Any], final: pd.DataFrame) -> Floats:
        """(rows, columns) means, of those that did not diverge; NaN where nothing was run, infinite where all diverged.

        Of what is lost: infinite where any seed diverged, as it has lost everything, and minus infinite where one of
        the cell that it is lost against did.
        """
        at = dict(self.where) if self.panels is None else {**self.where, self.panels: panel}
        rows = final[final["metric"] == self.y]
        values = np.full((len(down), len(across)), np.nan)
        for i, row in enumerate(down):
            for j, column in enumerate(across):
                cell = {**at, self.rows: row, self.x: column}
                left = values[i, j] = _mean(rows, cell, every=bool(self.against))
                if self.against and np.isfinite(left):
                    whole = _mean(rows, {**cell, **self.against}, every=True)
                    values[i, j] = -np.inf if np.isinf(whole) else whole - left
        return values


def _mean(rows: pd.DataFrame, at: dict[str, Any], every: bool = False) -> float:
    """The mean of a cell; NaN where it was not run, infinite where all seeds diverged, or any of them where `every`."""
    found = rows[select(rows, at)]
    if not len(found):
        return float("nan")
    one = found.iloc[0]
    gone = one["seeds"] == 0 or (every and one["diverged"] > 0)
    return float("inf") if gone else float(one["mean"])


def _draw(axis: Axes, values: Floats, low: float, high: float, whole: bool) -> Any:
    image = axis.imshow(
        np.where(np.isfinite(values), values, np.nan), cmap="viridis", vmin=low, vmax=high, aspect="auto"
    )
    for (i, j), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        dark = np.isfinite(value) and (value - low) < 0.6 * (high - low)
        places = 0 if whole else 1
        plain = f"{round(value, places) + 0.0:.{places}f}" if abs(value) < 1000 else number(value)
        text = {np.inf: "diverged", -np.inf: "reference\ndiverged"}.get(value, plain)
        size = 6 if np.isinf(value) else 7
        axis.text(j, i, text, ha="center", va="center", fontsize=size, color="white" if dark else "black")
    axis.grid(False)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    return image
