"""Final values as bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pandas as pd

from asyncfl.base.figure_style import LETTER, WIDTH, looks
from asyncfl.base.quantities import with_unit
from asyncfl.experiments.evidence.samples import Floats
from asyncfl.experiments.figures.base import in_words
from asyncfl.experiments.figures.coinciding import OWN
from asyncfl.experiments.figures.drawing import diverged_in_words, divided, key, look_at, note, rows_of, spread
from asyncfl.experiments.figures.measured import Measured
from asyncfl.experiments.grid import AxisValues
from asyncfl.experiments.labels import axis_label, legend_label, value_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Bars(Measured):
    """The value after the last round as bars, for axes that are names."""

    mark: ClassVar[str] = "bars"
    own_values: ClassVar[str] = "dashes"

    kind: Literal["bars"] = "bars"
    x: str
    """Axis."""
    y: str = "test_accuracy"
    """Column of the values after the last round."""

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        return [("x", self.x), *super().axes_named]

    def against(self) -> str:
        return f" for each {in_words(self.x)}"

    def legend_is_beside(self, hues: list[Any]) -> bool:
        return super().legend_is_beside(hues) or hues != [None]

    def draw_panel(
        self, axis: Axes, at: dict[str, Any], hues: list[Any], grid: AxisValues, tables: Mapping[str, pd.DataFrame]
    ) -> None:
        points = grid[self.x]
        width, up = 0.8 / len(hues), self.scale(tables)
        for number, (hue, look) in enumerate(looks(hues).items()):
            rows = divided(rows_of(tables[self.table], self.y, at, self.hue, hue), up)
            rows = rows.set_index(rows[self.x].map(key)).reindex([key(v) for v in points])
            x = np.arange(len(points)) + (number - (len(hues) - 1) / 2) * width
            mean = rows["mean"].to_numpy(float)
            low, high, own = spread(rows)
            half = np.zeros(len(points))
            np.subtract(high / 2, low / 2, out=half, where=np.isfinite(low) & np.isfinite(high))
            label = None if self.hue is None else legend_label(self.hue, hue) + diverged_in_words(rows)
            finite = np.where(np.isinf(mean), np.nan, mean)
            axis.bar(x, finite, 0.92 * width, color=look["color"], label=label)
            axis.errorbar(x[~own], finite[~own], half[~own], fmt="none", ecolor="#333333", elinewidth=0.9, capsize=2)
            for end in (low, high):
                axis.plot(x[own], end[own], "_", color="#333333", markersize=6, label=OWN)
            for place in x[np.isinf(mean)]:  # a target that was not reached has no bar
                note(axis, place, "not by all seeds", look["color"])
        names = [value_label(v, self.x) for v in points]
        # names that would run into each other are written aslant
        slant: dict[str, Any] = {"rotation": 40, "ha": "right"} if sum(map(len, names)) * LETTER > WIDTH - 0.8 else {}
        axis.set_xticks(range(len(points)), names, **slant)
        axis.set_xlim(-0.6, len(points) - 0.4)
        axis.set_xlabel(axis_label(self.x))
        axis.set_ylabel(with_unit(self.label(self.y), up))
        axis.grid(False, axis="x")

    def frame_panel(self, axis: Axes) -> None:
        axis.set_yscale("log" if self.log else "linear")
        heights = np.array([float(bar.get_height()) for bar in axis.patches])  # type: ignore[attr-defined]
        if not np.isfinite(heights).any():
            axis.set_yticks([])
        else:  # an interval of two seeds may leave the axes, as bands do
            own = [np.asarray(line.get_ydata(), float) for line in axis.lines if line.get_label() == OWN]
            look_at(axis, [heights, *own], self.log, decade_below(heights) if self.log else 0.0)


def decade_below(heights: Floats) -> float:
    """Where bars begin at a logarithmic axis, which has no zero: the power of ten below all of them.

    heights: (n,), of which those count that are above 0 and finite; 1 where there is none.
    """
    known = heights[(heights > 0) & np.isfinite(heights)]
    return float(10.0 ** (np.ceil(np.log10(known.min())) - 1)) if len(known) else 1.0
