"""The fields that all figures share, and figures of panels side by side.

`x`, `hue` and `panels` name axes or variants of the experiment; every axis must be named or fixed by `where`. Several
columns can share a figure, a panel each, or a panel.
"""

from __future__ import annotations

import textwrap
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

import pandas as pd
from pydantic import Field, model_validator

from asyncfl.base.quantities import PLAIN, Scale, with_unit
from asyncfl.experiments.bounds import Bounds
from asyncfl.experiments.experiment_columns import unit_of
from asyncfl.experiments.figures.drawing import (
    LEAST_TICKS,
    NOTE,
    cut_ends,
    divided,
    floor_of,
    log_ticks,
    look_at,
    scale_in,
    share_y,
    take_turns,
    within_range,
)
from asyncfl.experiments.grid import AxisValues, ExperimentPart, Reference, Tables, Where, restricted, select, several
from asyncfl.experiments.intervals import drawn_convention
from asyncfl.experiments.labels import axis_label, end_label, legend_label, value_label
from asyncfl.results.figure_style import HEIGHT, WIDTH, canvas, looks, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OptionalAxis = Annotated[str | None, Reference("axis")]
TITLE_LETTERS = 10.0
"""Letters of a panel's title to the inch."""
SIDE_LETTERS, LEGEND_LETTERS = 36, 22
"""Letters of a line at the y axis, and of a legend beside the axes."""
LONG, MANY = 26, 4
"""Letters of an entry, and lines, above which the legend stands beside the axes, as it would cover them."""
OUTSIDE = 1.5
"""Inches of a legend beside the axes."""


class FigureBase(ExperimentPart):
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

    @property
    def compared_with(self) -> Where:
        """Values of axes at which lie the cells that those of `where` are compared with; empty: with none."""
        return {}

    @property
    def tables_read(self) -> set[str]:
        """Names of the experiment's tables that the figure is drawn from, such as `curves`."""
        of = {"rounds": "curves", "ends": "final"}
        return {of[table] for _, table, _ in self.columns_named} | ({"bounds"} if self.bound_named else set())

    def of_seeds(self, fewer: Sequence[int], seeds: int) -> str:
        """Return in words what is drawn of `seeds` seeds, and in some cells of `fewer`."""
        return drawn_convention(fewer, seeds, self.own_values)

    def cuts(self, tables: Tables, where: Where) -> str:
        """Return in words where intervals end that would reach further; empty: none does. where: part of the grid."""
        return ""

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

    def _names(self, hues: list[Any]) -> list[str]:
        return [] if self.hue is None else [legend_label(self.hue, hue) for hue in hues]

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

    def draw_page(
        self, grid: AxisValues, tables: Tables, caption: str, title: str, stem: Path, y_label: str | None = None
    ) -> list[Path]:
        """Draw as `FigureBase.draw_page`. y_label: words at the y axis; None: those of `draw_panel`."""
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
            lines = legend_lines(axes[: len(panels)], -1 if beside else 0, [*self._names(hues)])
            if lines and beside:
                wrapped = [textwrap.fill(entry, LEGEND_LETTERS) for entry in lines]
                corner: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)}
                axes[len(panels) - 1].legend(list(lines.values()), wrapped, **corner)
            elif lines and self.hue:
                axes[0].legend(list(lines.values()), list(lines))
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


def legend_lines(axes: Sequence[Axes], place: int, names: Sequence[str]) -> dict[str, Any]:
    """Return entry -> line of a legend at `axes[place]`: first the series `names` in order, then the others.

    Series that this panel lacks, as nothing of them was measured there, have the entry of another.
    """
    found: dict[str, tuple[str, Any]] = {}
    for axis in (axes[place], *axes):
        for line, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(NOTE.sub("", label), (label, line))
    order = [*(name for name in names if name in found), *(name for name in found if name not in names)]
    return dict(found[name] for name in order)


AXIS, METRIC = "measured column", "overlaid"
"""The axis whose values are the columns of an overlay, and the metric of its rows."""


class ColumnFigure(PanelFigure):
    """A figure of measured columns; several columns can share it, a panel each."""

    table: ClassVar[str] = "final"
    """Table of the experiment that has the columns."""
    cut_at_floor: ClassVar[str] = "an interval that reaches towards 0 is cut at the lowest value drawn"
    """Words of a caption where the lower end of an interval lies below the range of a logarithmic axis."""

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

    def drawn_rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of its table that a figure draws."""
        return frame

    def floor(self, rows: pd.DataFrame) -> float | None:
        """Return the lowest end of intervals at a logarithmic axis; None: it has none. rows: all that are drawn."""
        return floor_of(rows) if self.log else None

    def cuts(self, tables: Tables, where: Where) -> str:
        frame = tables[self.table]
        if not len(frame):
            return ""
        frame = self.drawn_rows(frame[select(frame, where)])
        columns = [frame[frame["metric"] == column] for column in self.ys or [self.y]]
        joint = self.floor(within_range(pd.concat(columns)))
        ends = [cut_ends(rows, joint if self.overlay else self.floor(within_range(rows))) for rows in columns]
        at_0, at_1, at_floor = (any(of) for of in zip(*ends, strict=True))
        sides = ["below 0"] * (at_0 and not self.log) + ["above 1"] * at_1
        told = [f"no interval is drawn {' or '.join(sides)}"] * bool(sides) + [self.cut_at_floor] * at_floor
        return "".join(f"; {one}" for one in told)

    def columns_beside(self) -> Sequence[str]:
        """Return columns that are needed beside those that are shown."""
        return ()

    def panels_of(self, grid: AxisValues) -> list[Panel]:
        of = [Panel(self.model_copy(update={"y": column}), self.where) for column in self.ys]
        return of or super().panels_of(grid)

    def draw_page(
        self, grid: AxisValues, tables: Tables, caption: str, title: str, stem: Path, y_label: str | None = None
    ) -> list[Path]:
        if not self.overlay:
            return super().draw_page(grid, tables, caption, title, stem, y_label)
        figure, grid, tables, y_label = self.overlaid(grid, tables)
        return figure.draw_page(grid, tables, caption, title, stem, y_label)

    def overlaid(self, grid: AxisValues, tables: Tables) -> tuple[PanelFigure, AxisValues, Tables, str]:
        """Return a figure of `METRIC` with hue `AXIS`, its grid and tables, and the words at the y axis.

        Columns whose labels begin alike, up to a comma, are told apart by the rest.
        """
        labels = [self.label(y) for y in self.ys]
        heads = {label.partition(", ")[0] for label in labels}
        shared = len(heads) == 1 and all(", " in label for label in labels)
        hues = tuple(label.partition(", ")[2] if shared else label for label in labels)
        frame, parts = tables[self.table], []
        scale = scale_in(frame, self.ys, self.log) if len({unit_of(y) for y in self.ys}) == 1 else PLAIN
        for y, hue in zip(self.ys, hues, strict=True):
            of: dict[str, Any] = {AXIS: hue}
            parts.append(divided(within_range(frame[frame["metric"] == y]), scale).assign(metric=METRIC, **of))
            parts.append(frame[frame["metric"].isin(self.columns_beside())].assign(**of))
        drawn = self.model_copy(update={"overlay": False, "ys": (), "y": METRIC, "hue": AXIS})
        words = heads.pop() if shared else "ε" if all(y.startswith("epsilon_") for y in self.ys) else ""
        words = with_unit(words, scale) if words else scale.symbol
        return drawn, {**grid, AXIS: hues}, {**tables, self.table: pd.concat(parts, ignore_index=True)}, words
