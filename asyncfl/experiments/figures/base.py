"""What all figures have: their fields, and the page that says that there is nothing to be drawn.

`x`, `hue` and `panels` name axes or variants of the experiment; every axis must be named or fixed by `where`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.base.figure_style import canvas, save, styled
from asyncfl.experiments.bounds import Bounds
from asyncfl.experiments.grid import AxisValues, Tables, restricted, several, values_of
from asyncfl.experiments.intervals import drawn_convention
from asyncfl.experiments.labels import axis_label, value_label


class FigureBase(Described):
    """What all figures have."""

    mark: ClassVar[str] = "lines"
    """What is drawn for the values of `hue`."""
    own_values: ClassVar[str] = "thin lines"
    """What two seeds' own values are drawn as; empty: no spread is drawn."""

    kind: str
    """Which kind of figure it is."""
    name: str = Field(default="figure", pattern=r"^[a-z0-9_]+$")
    """File name without ending."""
    title: str | None = None
    """Above the axes; None: the experiment's."""
    hue: str | None = None
    """Axis that is told apart by colour, line and marker."""
    panels: str | None = None
    """Axis with one panel per value, side by side."""
    where: dict[str, Any] = Field(default_factory=dict)
    """Axis -> value: draws a part of the grid."""
    log: bool = False
    """Logarithmic y axis."""
    share_y: bool = True
    """Whether all panels have the same y axis."""

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        """(field of the figure, axis it names)."""
        named = [("hue", self.hue), ("panels", self.panels)]
        return [(field, axis) for field, axis in named if axis] + [("where", axis) for axis in self.where]

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        """(field of the figure, axis, value of it that the figure shows)."""
        return values_of(self.where)

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        """(field of the figure, table that has the column: rounds or ends, column that it shows)."""
        return []

    @property
    def bound_named(self) -> str | None:
        """Entry of `bounds` that is drawn instead of measured values; None: measured values are."""
        return None

    def of_seeds(self, fewer: Sequence[int], seeds: int) -> str:
        """Say what is drawn of `seeds` seeds, and in some cells of `fewer`."""
        return drawn_convention(fewer, seeds, self.own_values)

    @abstractmethod
    def shown(self) -> str:
        """What is drawn, against what, in words."""

    def described(self, grid: AxisValues) -> str:
        """What the figure shows, in a sentence without its full stop.

        grid: axis -> its values at this scale, of `axes`.
        """
        said = self.shown()
        said += f"; {self.mark} by {in_words(self.hue)}" if self.hue else ""
        said += f"; panels by {in_words(self.panels)}" if self.panels else ""
        kept = [
            f"{in_words(axis)} {' or '.join(value_label(value, axis) for value in _run(several(values), grid[axis]))}"
            for axis, values in self.where.items()
        ]
        return said[0].upper() + said[1:] + (f"; {', '.join(kept)}" if kept else "")

    def is_run(self, grid: AxisValues) -> bool:
        """Whether there is anything to be drawn. grid: axis -> its values at this scale, of `axes`."""
        return all(restricted(grid, self.where).values())

    def axes(self, grid: AxisValues, bounds: Mapping[str, Bounds]) -> AxisValues:
        """The axes that the figure is drawn over: those of the runs, or those of the entry of `bounds`."""
        return grid if self.bound_named is None else bounds[self.bound_named].grid()

    def own_bound(self, grid: AxisValues) -> pd.DataFrame | None:
        """Values of a bound that the figure draws beside measured ones, over `grid`; None: it draws none."""
        return None

    def own_bound_fault(self, grid: AxisValues) -> str | None:
        """Why `own_bound` cannot be computed, in words; None: it can be, or there is none."""
        return None

    def draw(self, grid: AxisValues, tables: Tables, caption: str, title: str, stem: Path) -> list[Path]:
        """Writes `stem`.svg, .png and .pdf and returns their paths.

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
        """As `draw`, over the axes that `where` has left, none of which is empty."""


def in_words(axis: str) -> str:
    """An axis in plain words."""
    return axis_label(axis, plain_text=True)


def _run(wanted: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Those of the wanted values that are run; all where none is, as then nothing is drawn."""
    return tuple(value for value in wanted if value in values) or wanted
