"""What figures of measured columns have; several columns can share a figure, a panel each, or a panel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import pandas as pd
from pydantic import model_validator

from asyncfl.base.quantities import PLAIN, Scale, with_unit
from asyncfl.experiments.columns import unit_of
from asyncfl.experiments.figures.drawing import divided, scale_in
from asyncfl.experiments.figures.panels import PanelFigure
from asyncfl.experiments.grid import AxisValues
from asyncfl.experiments.labels import end_label

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

    def scale(self, tables: Mapping[str, pd.DataFrame]) -> Scale:
        """What `y` is written in; columns of one unit that share a figure share its scale."""
        return scale_in(tables[self.table], [self.y, *self.ys], self.log)

    def columns_beside(self) -> Sequence[str]:
        """Columns that are needed beside those that are shown."""
        return ()

    def columns_shown(self) -> list[PanelFigure]:
        return [self.model_copy(update={"y": column}) for column in self.ys]

    def draw_page(
        self,
        grid: AxisValues,
        tables: Mapping[str, pd.DataFrame],
        caption: str,
        title: str,
        stem: str | Path,
        y_label: str | None = None,
    ) -> list[Path]:
        if not self.overlay:
            return super().draw_page(grid, tables, caption, title, stem, y_label)
        figure, grid, tables, y_label = self.overlaid(grid, tables)
        return figure.draw_page(grid, tables, caption, title, stem, y_label)

    def overlaid(
        self, grid: AxisValues, tables: Mapping[str, pd.DataFrame]
    ) -> tuple[Self, AxisValues, dict[str, pd.DataFrame], str]:
        """A figure of `METRIC` with hue `AXIS`, its grid and tables, and what stands at the y axis.

        Columns whose labels begin alike, up to a comma, are told apart by the rest.
        """
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
