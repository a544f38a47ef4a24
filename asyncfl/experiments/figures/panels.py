"""Figures of panels side by side; several columns can share a figure, a panel each, or a panel."""

from __future__ import annotations

import textwrap
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import pandas as pd
from pydantic import model_validator

from asyncfl.base.figure_style import HEIGHT, WIDTH, canvas, looks, save, styled
from asyncfl.base.quantities import PLAIN, Scale, with_unit
from asyncfl.experiments.columns import unit_of
from asyncfl.experiments.figures.base import FigureBase
from asyncfl.experiments.figures.coinciding import take_turns
from asyncfl.experiments.figures.drawing import LEAST_TICKS, divided, log_ticks, look_at, scale_in, share_y
from asyncfl.experiments.grid import AxisValues, Tables, Where
from asyncfl.experiments.labels import end_label, legend_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE_LETTERS = 10.0
"""Letters of a panel's title to the inch."""
SIDE_LETTERS, LEGEND_LETTERS = 36, 22
"""Letters of a line at the y axis, and of a legend beside the axes."""
LONG, MANY = 26, 4
"""Letters of an entry, and lines, above which the legend stands beside the axes, as it would cover them."""
OUTSIDE = 1.5
"""Inches of a legend beside the axes."""


class Panel(NamedTuple):
    """One panel of a figure."""

    figure: PanelFigure
    at: Where
    """Its place in the grid."""
    title: str = ""


class PanelFigure(FigureBase):
    """A figure of panels side by side."""

    def panels_of(self, grid: AxisValues) -> list[Panel]:
        """Return its panels; of those without a title the column is one, where there are several."""
        if self.panels is None:
            return [Panel(self, self.where)]
        axis = self.panels
        return [Panel(self, {**self.where, axis: v}, legend_label(axis, v)) for v in grid[axis]]

    def panel_beside(self) -> Panel | None:
        """Return a further panel on the right, with a y axis of its own; None: there is none."""
        return None

    def legend_is_beside(self, hues: list[Any]) -> bool:
        """Return whether the legend stands beside the axes."""
        return len(hues) > MANY or any(len(legend_label(self.hue, hue)) > LONG for hue in hues if self.hue)

    @abstractmethod
    def draw_panel(self, axis: Axes, at: Where, hues: list[Any], grid: AxisValues, tables: Tables) -> None:
        """Draw the values at a point into one panel, a line (or set of bars) per hue, and name its axes."""

    def each_hue(self, at: Where, hues: list[Any]) -> Iterator[tuple[Where, dict[str, Any], str | None]]:
        """Yield place in the grid, look, and label of each hue."""
        for hue, look in looks(hues).items():
            yield (at, look, None) if self.hue is None else ({**at, self.hue: hue}, look, legend_label(self.hue, hue))

    def frame_panel(self, axis: Axes) -> None:
        """Set scale and range of the y axis, after everything is drawn."""
        if self.log:
            axis.set_yscale("log")
        look_at(axis, [line.get_ydata() for line in axis.lines], self.log)

    def finish(self, axis: Axes) -> None:
        """Set the ticks, when all panels are drawn; those that are fixed stay."""
        from matplotlib.ticker import MaxNLocator

        if self.log:
            log_ticks(axis.yaxis, *axis.get_ylim())
        elif isinstance(locator := axis.yaxis.get_major_locator(), MaxNLocator):
            locator.set_params(min_n_ticks=LEAST_TICKS)

    def overlaid(self, grid: AxisValues, tables: Tables) -> tuple[PanelFigure, AxisValues, Tables, str | None]:
        """Return the figure that is drawn, its grid and tables, and the words at the y axis (None: the column's)."""
        return self, grid, tables, None

    def draw_page(self, grid: AxisValues, tables: Tables, caption: str, title: str, stem: Path) -> list[Path]:
        figure, grid, tables, y_label = self.overlaid(grid, tables)
        return figure._draw(grid, tables, caption, title, stem, y_label)

    def _draw(
        self, grid: AxisValues, tables: Tables, caption: str, title: str, stem: Path, y_label: str | None
    ) -> list[Path]:
        panels, further = self.panels_of(grid), self.panel_beside()
        # without a legend entry per line a single hue value still needs its look
        hues: list[Any] = list(grid[self.hue]) if self.hue else [None]
        beside = self.legend_is_beside(hues)
        size = (WIDTH + OUTSIDE / len(panels), HEIGHT + 0.6) if beside else None
        with styled():
            page, axes = canvas(len(panels) + (further is not None), caption, title, size)
            for place, (axis, panel) in enumerate(zip(axes, panels, strict=False)):
                panel.figure.draw_panel(axis, panel.at, hues, grid, tables)
                self.frame_panel(axis)
                axis.set_ylabel(textwrap.fill(axis.get_ylabel() if y_label is None else y_label, SIDE_LETTERS))
                axis.set_title(panel.title)
                if len(panels) > 1 and not panel.title:  # a shared axis is named at the first panel alone
                    across = page.get_size_inches()[0] / len(panels)
                    what, of, named = " ".join(axis.get_ylabel().split()).rpartition(" on ")
                    axis.set_title(textwrap.fill(named, int(across * TITLE_LETTERS)))
                    axis.set_ylabel(what if of and not place else "")
                if beside and place == len(panels) - 1:
                    lines, entries = axis.get_legend_handles_labels()
                    wrapped = [textwrap.fill(entry, LEGEND_LETTERS) for entry in entries]
                    axis.legend(lines, wrapped, loc="upper left", bbox_to_anchor=(1.01, 1.0))
                elif not beside and place == 0 and self.hue:
                    axis.legend()
            if further is not None:
                further.figure.draw_panel(axes[-1], further.at, hues, grid, tables)
                axes[-1].set_title(further.title)
                axes[-1].set_xticks(axes[0].get_xticks())
                further.figure.frame_panel(axes[-1])
            if len(panels) > 1 and self.share_y:
                share_y(axes[: len(panels)])
            for axis in axes:
                self.finish(axis)
                take_turns(axis)
            return save(page, stem)


AXIS, METRIC = "measured column", "overlaid"
"""The axis whose values are the columns of an overlay, and the metric of its rows."""


class Measured(PanelFigure):
    """A figure of measured columns; several columns can share it, a panel each."""

    table: ClassVar[str] = "final"
    """Table of the experiment that has the columns."""

    y: str
    """Measured column."""
    ys: tuple[str, ...] = ()
    """Columns with a panel each, instead of `y` and of `panels`: the accuracy in each domain, for example."""
    overlay: bool = False
    """Whether the columns of `ys` share a panel instead, told apart by colour: epsilon by several accountants, for
    example."""

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
        named = [(f"ys.{number}", of, column) for number, column in enumerate(self.ys)] or [("y", of, self.y)]
        return named + super().columns_named

    @abstractmethod
    def against(self) -> str:
        """Return in words what the columns are drawn against."""

    def shown(self) -> str:
        return "; ".join(self.label(column).replace("$", "") for column in self.ys or [self.y]) + self.against()

    def label(self, column: str) -> str:
        """Return a column at an axis of the figure."""
        return end_label(column)

    def scale(self, tables: Tables) -> Scale:
        """Return the scale of `y`; columns of one unit that share a figure share it."""
        return scale_in(tables[self.table], [self.y, *self.ys], self.log)

    def columns_beside(self) -> Sequence[str]:
        """Return columns that are needed beside those that are shown."""
        return ()

    def panels_of(self, grid: AxisValues) -> list[Panel]:
        of = [Panel(self.model_copy(update={"y": column}), self.where) for column in self.ys]
        return of or super().panels_of(grid)

    def overlaid(self, grid: AxisValues, tables: Tables) -> tuple[PanelFigure, AxisValues, Tables, str | None]:
        """Return a figure of `METRIC` with hue `AXIS`, its grid and tables, and the words at the y axis.

        Columns whose labels begin alike, up to a comma, are told apart by the rest.
        """
        if not self.overlay:
            return super().overlaid(grid, tables)
        labels = [self.label(y) for y in self.ys]
        heads = {label.partition(", ")[0] for label in labels}
        shared = len(heads) == 1 and all(", " in label for label in labels)
        hues = tuple(label.partition(", ")[2] if shared else label for label in labels)
        frame, parts = tables[self.table], []
        scale = scale_in(frame, self.ys, self.log) if len({unit_of(y) for y in self.ys}) == 1 else PLAIN
        for y, hue in zip(self.ys, hues, strict=True):
            of: dict[str, Any] = {AXIS: hue}
            parts.append(divided(frame[frame["metric"] == y], scale).assign(metric=METRIC, **of))
            parts.append(frame[frame["metric"].isin(self.columns_beside())].assign(**of))
        drawn = self.model_copy(update={"overlay": False, "ys": (), "y": METRIC, "hue": AXIS})
        words = heads.pop() if shared else "ε" if all(y.startswith("epsilon_") for y in self.ys) else ""
        words = with_unit(words, scale) if words else scale.symbol
        return drawn, {**grid, AXIS: hues}, {**tables, self.table: pd.concat(parts, ignore_index=True)}, words
