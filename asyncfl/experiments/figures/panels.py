"""Figures of panels side by side; several columns can share a figure, a panel each, or a panel."""

from __future__ import annotations

import textwrap
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pandas as pd
from pydantic import model_validator

from asyncfl.base.figure_style import HEIGHT, WIDTH, canvas, save, styled
from asyncfl.base.quantities import PLAIN, Scale, with_unit
from asyncfl.experiments.columns import unit_of
from asyncfl.experiments.figures.base import FigureBase
from asyncfl.experiments.figures.coinciding import take_turns
from asyncfl.experiments.figures.drawing import divided, frame, log_ticks, scale_in, several_ticks, share_y
from asyncfl.experiments.grid import AxisValues, Tables, Where
from asyncfl.experiments.labels import end_label, legend_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE_LETTERS = 10.0
"""Letters of a panel's title to the inch."""
SIDE_LETTERS = 36
"""Letters of a line at the y axis."""
LEGEND_LETTERS = 22
"""Letters of a line of a legend beside the axes."""
LONG = 26
"""Letters of a legend's entry above which it stands there."""
MANY = 4
"""Lines above which the legend stands beside the axes, as it would cover them."""
OUTSIDE = 1.5
"""Inches that it takes there."""


class PanelFigure(FigureBase):
    """What figures of panels side by side have."""

    def columns_shown(self) -> list[PanelFigure]:
        """A figure for each column that has a panel of its own; none where panels are values of an axis."""
        return []

    def panels_beside(self) -> int:
        """Number of further panels on the right that `draw_beside` fills."""
        return 0

    def legend_is_beside(self, hues: list[Any]) -> bool:
        """Whether the legend stands beside the axes."""
        return len(hues) > MANY

    @abstractmethod
    def draw_panel(self, axis: Axes, at: Where, hues: list[Any], grid: AxisValues, tables: Tables) -> None:
        """Draws the values at a point into one panel, a line (or set of bars) per hue, and names its axes."""

    def frame_panel(self, axis: Axes) -> None:
        """Sets scale and range of the y axis, after all is drawn."""
        frame(axis, self.log)

    def draw_beside(self, axes: list[Axes], hues: list[Any], tables: Tables) -> None:
        """Fills the panels of `panels_beside`, the last of `axes`."""
        return

    def finish(self, axis: Axes) -> None:
        """Sets the ticks, when all panels are drawn."""
        if self.log:
            log_ticks(axis.yaxis, *axis.get_ylim())
        else:
            several_ticks(axis.yaxis)

    def overlaid(self, grid: AxisValues, tables: Tables) -> tuple[PanelFigure, AxisValues, Tables, str | None]:
        """The figure that is drawn, its grid and tables, and what stands at the y axis instead of the column's name."""
        return self, grid, tables, None

    def draw_page(self, grid: AxisValues, tables: Tables, caption: str, title: str, stem: Path) -> list[Path]:
        figure, grid, tables, y_label = self.overlaid(grid, tables)
        return figure._draw(grid, tables, caption, title, stem, y_label)

    def _draw(
        self, grid: AxisValues, tables: Tables, caption: str, title: str, stem: Path, y_label: str | None
    ) -> list[Path]:
        columns = self.columns_shown()
        panels: list[Any] = list(grid[self.panels]) if self.panels else [None]
        shown: list[PanelFigure] = columns or [self] * len(panels)
        panels = [None] * len(columns) if columns else panels
        # without a legend entry per line a single hue value still needs its look
        hues: list[Any] = list(grid[self.hue]) if self.hue else [None]
        names = [legend_label(self.hue, hue) for hue in hues] if self.hue else []
        beside = self.legend_is_beside(hues) or any(len(name) > LONG for name in names)
        size = (WIDTH + OUTSIDE / len(panels), HEIGHT + 0.6) if beside else None
        with styled():
            page, axes = canvas(len(panels) + self.panels_beside(), caption, title, size)
            for place, (axis, panel) in enumerate(zip(axes, panels, strict=False)):
                at = dict(self.where) if self.panels is None else {**self.where, self.panels: panel}
                shown[place].draw_panel(axis, at, hues, grid, tables)
                self.frame_panel(axis)
                axis.set_ylabel(textwrap.fill(axis.get_ylabel() if y_label is None else y_label, SIDE_LETTERS))
                if self.panels:
                    axis.set_title(legend_label(self.panels, panel))
                elif len(shown) > 1:  # a shared axis is named at the first panel alone
                    across = page.get_size_inches()[0] / len(shown)
                    what, of, named = " ".join(axis.get_ylabel().split()).rpartition(" on ")
                    axis.set_title(textwrap.fill(named, int(across * TITLE_LETTERS)))
                    axis.set_ylabel(what if of and not place else "")
                if beside and place == len(panels) - 1:
                    lines, entries = axis.get_legend_handles_labels()
                    wrapped = [textwrap.fill(entry, LEGEND_LETTERS) for entry in entries]
                    axis.legend(lines, wrapped, loc="upper left", bbox_to_anchor=(1.01, 1.0))
                elif not beside and place == 0 and hues != [None]:
                    axis.legend()
            self.draw_beside(axes, hues, tables)
            if len(panels) > 1 and self.share_y:
                share_y(axes[: len(panels)])
            for axis in axes:
                self.finish(axis)
                take_turns(axis)
            return save(page, stem)


AXIS = "measured column"
"""The axis that the columns of an overlay are the values of."""
METRIC = "overlaid"
"""What the values of an overlay are called in the tables."""


class Measured(PanelFigure):
    """What figures of measured columns have; several columns can share a figure, a panel each."""

    table: ClassVar[str] = "final"
    """Table of the experiment that the columns are those of."""

    y: str
    """Measured column."""
    ys: tuple[str, ...] = ()
    """Columns with a panel each, instead of `y` and of `panels`: the accuracy in each domain, for example."""
    overlay: bool = False
    """The columns of `ys` share a panel instead, told apart by colour: epsilon by several accountants, for example."""

    @model_validator(mode="after")
    def _check_panels(self) -> Self:
        if self.overlay and (not self.ys or self.hue):
            raise ValueError("overlay tells the columns of ys apart by colour: it needs ys, and no hue")
        if self.ys and self.panels and not self.overlay:
            raise ValueError("ys and panels exclude each other: a panel shows one column or one value of an axis")
        return self

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        of = {"curves": "rounds", "final": "ends"}[self.table]
        return [(f"ys.{number}", of, column) for number, column in enumerate(self.ys)] or [("y", of, self.y)]

    @abstractmethod
    def against(self) -> str:
        """What the columns are drawn against, in words that follow them."""

    def shown(self) -> str:
        *first, last = [self.label(column).replace("$", "") for column in self.ys or [self.y]]
        return (f"{'; '.join(first)}; {last}" if first else last) + self.against()

    def label(self, column: str) -> str:
        """A column at an axis of the figure."""
        return end_label(column)

    def scale(self, tables: Tables) -> Scale:
        """What `y` is written in; columns of one unit that share a figure share its scale."""
        return scale_in(tables[self.table], [self.y, *self.ys], self.log)

    def columns_beside(self) -> Sequence[str]:
        """Columns that are needed beside those that are shown."""
        return ()

    def columns_shown(self) -> list[PanelFigure]:
        return [self.model_copy(update={"y": column}) for column in self.ys]

    def overlaid(self, grid: AxisValues, tables: Tables) -> tuple[PanelFigure, AxisValues, Tables, str | None]:
        """A figure of `METRIC` with hue `AXIS`, its grid and tables, and what stands at the y axis.

        Columns whose labels begin alike, up to a comma, are told apart by the rest.
        """
        if not self.overlay:
            return super().overlaid(grid, tables)
        labels = [self.label(y) for y in self.ys]
        heads = {label.partition(", ")[0] for label in labels}
        shared = len(heads) == 1 and all(", " in label for label in labels)
        hues = tuple(label.partition(", ")[2] if shared else label for label in labels)
        frame, parts = tables[self.table], []
        alike = len({unit_of(y) for y in self.ys}) == 1
        scale = scale_in(frame, self.ys, self.log) if alike else PLAIN
        for y, hue in zip(self.ys, hues, strict=True):
            about: dict[str, Any] = {AXIS: hue}
            parts.append(divided(frame[frame["metric"] == y], scale).assign(metric=METRIC, **about))
            parts += [frame[frame["metric"] == name].assign(**about) for name in self.columns_beside()]
        drawn = self.model_copy(update={"overlay": False, "ys": (), "y": METRIC, "hue": AXIS})
        said = heads.pop() if shared else "ε" if all(y.startswith("epsilon_") for y in self.ys) else ""
        if scale.symbol:
            said = with_unit(said, scale) if said else scale.symbol
        return drawn, {**grid, AXIS: hues}, {**tables, self.table: pd.concat(parts, ignore_index=True)}, said
