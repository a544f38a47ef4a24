"""What claims have that compare points of an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncfl.experiments.claims.base import ClaimBase
from asyncfl.experiments.evidence.samples import Sample
from asyncfl.experiments.grid import Grid, NotRunError
from asyncfl.experiments.labels import axis_label, value_label

LISTED = 8
"""Points of an axis up to which all measured values are written out."""


class AlongClaim(ClaimBase):
    """What claims that compare points of an axis have."""

    along: str
    """The axis, in the order of its list."""

    @property
    def title(self) -> str:
        return f"{super().title} along {self.along}"

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        return [*super().axes_named, ("along", self.along)]

    def values(self, grid: Grid, at: dict[str, Any]) -> dict[Any, Sample]:
        """Point of the axis -> its value by seed, of the points that the claim speaks about, in order.

        Raises NotRunError where fewer than two points have one.
        """
        values = {point: self.read(grid, {**at, self.along: point}) for point in self._points(grid)}
        # a formula says nothing where it is not defined
        values = {value: x for value, x in values.items() if not np.isnan(x.values).all()}
        if len(values) < 2:
            raise NotRunError(f"{self.along} has fewer than two values with results at this scale")
        return values

    def _points(self, grid: Grid) -> tuple[Any, ...]:
        if self.along not in self.where:
            return grid.axes[self.along]
        others = [axis for axis in grid.axes if axis != self.along]
        return tuple(point[self.along] for point in grid.points({self.along: self.where[self.along]}, others))

    def listing(self, values: dict[Any, Sample]) -> str:
        """The means at the points of the axis, in words; of many points the ends, the lowest and the highest."""
        means = {v: self.mean(x) for v, x in values.items()}
        shown = list(means)
        if len(shown) > LISTED:
            ranked = sorted(shown, key=lambda v: means[v])
            shown = [v for v in shown if v in (shown[0], ranked[0], ranked[-1], shown[-1])]
        listed = ", ".join(f"{self.named(v)}: {self.mean_in_words(means[v])}" for v in shown)
        left_out = "" if len(shown) == len(means) else f" (ends, lowest and highest of {len(means)})"
        return f"{axis_label(self.along, plain_text=True)} {listed}{left_out}"

    def named(self, value: Any) -> str:
        """A point of the axis in words."""
        return value_label(value, self.along)

    def cells(self, at: dict[str, Any], *points: Any) -> tuple[dict[str, Any], ...]:
        """The cells at these points of the axis."""
        return tuple({**at, self.along: point} for point in points)
