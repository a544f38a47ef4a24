"""Convergence bounds against one of their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from asyncfl.experiments.bounds import of
from asyncfl.experiments.figures.base import in_words
from asyncfl.experiments.figures.drawing import bound_lines
from asyncfl.experiments.figures.panels import PanelFigure
from asyncfl.experiments.grid import AxisValues
from asyncfl.experiments.labels import column_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class BoundCurves(PanelFigure):
    """An entry of `bounds` against one of its arguments; its best integer is marked."""

    kind: Literal["bound"] = "bound"
    bound: str
    """Entry of `bounds`."""
    x: str
    """The argument on x."""

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        return [("x", self.x), *super().axes_named]

    def shown(self) -> str:
        return f"{column_label('bound')} against {in_words(self.x)}"

    @property
    def bound_named(self) -> str | None:
        return self.bound

    def draw_panel(
        self, axis: Axes, at: dict[str, Any], hues: list[Any], grid: AxisValues, tables: Mapping[str, pd.DataFrame]
    ) -> None:
        bound_lines(axis, self.x, self.hue, hues, of(tables["bounds"], self.bound), at)
