"""Figures of panels side by side with lines or bars in them, told apart by colour."""

from __future__ import annotations

import textwrap
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from asyncfl.base.figure_style import HEIGHT, WIDTH, canvas, save, styled
from asyncfl.experiments.figures.base import FigureBase
from asyncfl.experiments.figures.coinciding import take_turns
from asyncfl.experiments.figures.drawing import frame, log_ticks, several_ticks, share_y
from asyncfl.experiments.grid import AxisValues
from asyncfl.experiments.labels import legend_label

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
    def draw_panel(
        self, axis: Axes, at: dict[str, Any], hues: list[Any], grid: AxisValues, tables: Mapping[str, pd.DataFrame]
    ) -> None:
        """Draws the values at a point into one panel, a line (or set of bars) per hue, and names its axes."""

    def frame_panel(self, axis: Axes) -> None:
        """Sets scale and range of the y axis, after all is drawn."""
        frame(axis, self.log)

    def draw_beside(self, axes: list[Axes], hues: list[Any], tables: Mapping[str, pd.DataFrame]) -> None:
        """Fills the panels of `panels_beside`, the last of `axes`."""
        return

    def finish(self, axis: Axes) -> None:
        """Sets the ticks, when all panels are drawn."""
        if self.log:
            log_ticks(axis.yaxis, *axis.get_ylim())
        else:
            several_ticks(axis.yaxis)

    def draw_page(
        self,
        grid: AxisValues,
        tables: Mapping[str, pd.DataFrame],
        caption: str,
        title: str,
        stem: str | Path,
        y_label: str | None = None,
    ) -> list[Path]:
        """As `FigureBase.draw_page`; `y_label` stands at the y axis instead of the column's own name."""
        with styled():
            columns = self.columns_shown()
            panels: list[Any] = list(grid[self.panels]) if self.panels else [None]
            shown: list[PanelFigure] = [self] * len(panels)
            if columns:
                shown, panels = columns, [None] * len(columns)
            # without a legend entry per line a single hue value still needs its look
            hues: list[Any] = list(grid[self.hue]) if self.hue else [None]
            names = [legend_label(self.hue, hue) for hue in hues] if self.hue else []
            legend_beside = self.legend_is_beside(hues) or any(len(name) > LONG for name in names)
            size = (WIDTH + OUTSIDE / len(panels), HEIGHT + 0.6) if legend_beside else None
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
                if legend_beside and place == len(panels) - 1:
                    lines, entries = axis.get_legend_handles_labels()
                    wrapped = [textwrap.fill(entry, LEGEND_LETTERS) for entry in entries]
                    axis.legend(lines, wrapped, loc="upper left", bbox_to_anchor=(1.01, 1.0))
                elif not legend_beside and place == 0 and hues != [None]:
                    axis.legend()
            self.draw_beside(axes, hues, tables)
            if len(panels) > 1 and self.share_y:
                share_y(axes[: len(panels)])
            for axis in axes:
                self.finish(axis)
                take_turns(axis)
            return save(page, stem)
