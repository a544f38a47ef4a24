"""Final values against an axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from asyncfl.base.figure_style import looks
from asyncfl.base.quantities import with_unit
from asyncfl.experiments.bounds import ARGUMENTS, Bound, first_fault, of
from asyncfl.experiments.evidence.samples import Floats
from asyncfl.experiments.figures.base import in_words
from asyncfl.experiments.figures.drawing import (
    band,
    bound_lines,
    diverged_in_words,
    divided,
    frame,
    key,
    places_of,
    rows_of,
)
from asyncfl.experiments.figures.measured import Measured
from asyncfl.experiments.grid import AxisValues
from asyncfl.experiments.labels import axis_label, legend_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIMIT: dict[str, Any] = {"color": "#000000", "linestyle": (0, (4, 2)), "marker": "_", "zorder": 1.8}
"""The line of a limit."""


class Final(Measured):
    """The value after the last round against an axis, one line per value of `hue`."""

    kind: Literal["final"] = "final"
    x: str
    """Axis."""
    y: str = "train_loss"
    """Column of the values after the last round."""
    log_x: bool = False
    """Logarithmic x axis, for an axis of numbers that range over decades."""
    limit: str | None = None
    """Column of the values after the last round that is drawn beside `y` as a black dashed line, the largest over
    `hue`: what nobody can pass, or is to stay below."""
    bound: Bound | None = None
    """A theorem drawn in a panel beside the measured values, over the same axis and hue."""

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        return [("x", self.x), *super().axes_named]

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        return super().columns_named + ([] if self.limit is None else [("limit", "ends", self.limit)])

    def against(self) -> str:
        beside = "" if self.bound is None else f", beside theorem {self.bound.theorem}"
        limit = "" if self.limit is None else f"; dashed: {self.label(self.limit)}"
        return f" against {in_words(self.x)}{beside}{limit}"

    def legend_is_beside(self, hues: list[Any]) -> bool:
        return super().legend_is_beside(hues) or self.limit is not None

    def own_bound(self, grid: AxisValues) -> pd.DataFrame | None:
        return None if self.bound is None else self.bound.over(self._arguments(grid)).assign(name=self._entry)

    def own_bound_fault(self, grid: AxisValues) -> str | None:
        return None if self.bound is None else first_fault(self.bound, self._arguments(grid))

    def _arguments(self, grid: AxisValues) -> AxisValues:
        """The axes on x and of the hue that are arguments of the bound."""
        return {axis: grid[axis] for axis in (self.x, self.hue) if axis in ARGUMENTS and axis in grid}

    @property
    def _entry(self) -> str:
        """Name of the values of `own_bound` in the table of bounds."""
        return f"figure {self.name}"

    def panels_beside(self) -> int:
        return 0 if self.bound is None else 1

    def draw_panel(
        self, axis: Axes, at: dict[str, Any], hues: list[Any], grid: AxisValues, tables: Mapping[str, pd.DataFrame]
    ) -> None:
        places, names = places_of(self.x, grid)
        up = self.scale(tables)
        for hue, look in looks(hues).items():
            rows = divided(rows_of(tables[self.table], self.y, at, self.hue, hue), up)
            rows = rows.set_index(rows[self.x].map(key)).reindex([key(v) for v in grid[self.x]])
            label = None if self.hue is None else legend_label(self.hue, hue) + diverged_in_words(rows)
            band(axis, places, rows, look, label)
        if self.limit is not None:
            axis.plot(places, self._limits(at, hues, grid, tables) / up.factor, label=self.label(self.limit), **LIMIT)
        axis.set_xlabel(axis_label(self.x))
        axis.set_ylabel(with_unit(self.label(self.y), up))
        if self.log_x:
            axis.set_xscale("log")
            axis.minorticks_off()
        axis.set_xticks(places, names)

    def _limits(
        self, at: dict[str, Any], hues: list[Any], grid: AxisValues, tables: Mapping[str, pd.DataFrame]
    ) -> Floats:
        """(points of x,) the largest mean of `limit` over the hues; NaN where there is none."""
        found = pd.concat([rows_of(tables[self.table], self.limit or "", at, self.hue, hue) for hue in hues])
        largest = found["mean"].groupby(found[self.x].map(key)).max()
        return largest.reindex([key(value) for value in grid[self.x]]).to_numpy(float)

    def draw_beside(self, axes: list[Axes], hues: list[Any], tables: Mapping[str, pd.DataFrame]) -> None:
        if self.bound is None:
            return
        axes[0].set_title("measured")
        axes[-1].set_title(f"theorem {self.bound.theorem}")
        bound_lines(axes[-1], self.x, self.hue, hues, of(tables["bounds"], self._entry), {})
        axes[-1].set_xticks(axes[0].get_xticks())
        frame(axes[-1], self.log)
