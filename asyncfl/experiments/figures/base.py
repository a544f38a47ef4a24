"""The fields that all figures share.

`x`, `hue` and `panels` name axes or variants of the experiment; every axis must be named or fixed by `where`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import pandas as pd
from pydantic import Field

from asyncfl.base.figure_style import canvas, save, styled
from asyncfl.experiments.bounds import Bounds
from asyncfl.experiments.grid import AxisValues, Names, Referring, Tables, restricted, several
from asyncfl.experiments.intervals import drawn_convention
from asyncfl.experiments.labels import axis_label, value_label

OptionalAxis = Annotated[str | None, Names("axis")]


class FigureBase(Referring):
    """A figure of an experiment."""

    mark: ClassVar[str] = "lines"
    """Shapes that stand for the values of `hue`."""
    own_values: ClassVar[str] = "thin lines"
    """Shapes that stand for two seeds' own values; empty: no spread is drawn."""

    kind: str
    """Kind of the figure."""
    name: str = Field(default="figure", pattern=r"^[a-z0-9_]+$")
    """File name without ending."""
    title: str | None = None
    """Above the axes; None: the experiment's."""
    hue: OptionalAxis = None
    """Axis that is told apart by colour, line and marker."""
    panels: OptionalAxis = None
    """Axis with one panel per value, side by side."""
    log: bool = False
    """Logarithmic y axis."""
    share_y: bool = True
    """Whether all panels have the same y axis."""

    @property
    def bound_named(self) -> str | None:
        """Entry of `bounds` that is drawn instead of measured values; None: measured values are."""
        return None

    def of_seeds(self, fewer: Sequence[int], seeds: int) -> str:
        """Return in words what is drawn of `seeds` seeds, and in some cells of `fewer`."""
        return drawn_convention(fewer, seeds, self.own_values)

    @abstractmethod
    def shown(self) -> str:
        """Return in words what is drawn, and against what."""

    def described(self, grid: AxisValues) -> str:
        """Return what the figure shows, in a sentence without its full stop. grid: see `draw`."""
        parts = [self.shown()]
        parts += [f"{self.mark} by {in_words(self.hue)}"] if self.hue else []
        parts += [f"panels by {in_words(self.panels)}"] if self.panels else []
        kept = []
        for axis, wanted in self.where.items():
            shown = [value for value in several(wanted) if value in grid[axis]] or several(wanted)
            kept.append(f"{in_words(axis)} {' or '.join(value_label(value, axis) for value in shown)}")
        text = "; ".join([*parts, *([", ".join(kept)] if kept else [])])
        return text[0].upper() + text[1:]

    def is_run(self, grid: AxisValues) -> bool:
        """Return whether there is anything to be drawn. grid: see `draw`."""
        return all(restricted(grid, self.where).values())

    def axes(self, grid: AxisValues, bounds: Mapping[str, Bounds]) -> AxisValues:
        """Return the axes that the figure is drawn over: those of the runs, or those of its entry of `bounds`."""
        return grid if self.bound_named is None else bounds[self.bound_named].grid()

    def own_bound(self, grid: AxisValues) -> pd.DataFrame | None:
        """Return values of a bound that is drawn beside measured ones, over `grid`; None: there is none."""
        return None

    def own_bound_fault(self, grid: AxisValues) -> str | None:
        """Return why `own_bound` cannot be computed; None: it can be, or there is none."""
        return None

    def draw(self, grid: AxisValues, tables: Tables, caption: str, title: str, stem: Path) -> list[Path]:
        """Write `stem`.svg, .png and .pdf and return their paths.

        grid: axis -> its values at this scale, of `axes`. tables: `curves`, `final` and `bounds` of the experiment.
        """
        title = title if self.title is None else self.title
        if self.is_run(grid):
            return self.draw_page(restricted(grid, self.where), tables, caption, title, stem)
        # empty axes would look like a mistake
        with styled():
            page, [axis] = canvas(1, caption, title)
            axis.set_axis_off()
            axis.text(0.5, 0.5, "not run at this scale", ha="center", va="center", color="#555555")
            return save(page, stem)

    @abstractmethod
    def draw_page(self, grid: AxisValues, tables: Tables, caption: str, title: str, stem: Path) -> list[Path]:
        """Draw as `draw`, over the axes that `where` has left, none of which is empty."""


def in_words(axis: str) -> str:
    return axis_label(axis, plain_text=True)
