"""Claims that compare the points of an axis."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from pydantic import Field

from asyncfl.experiments.claims.base import Cells, ClaimBase, Point
from asyncfl.experiments.evidence.decision import AllOf, AnyOf, Comparison
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

    def cells(self, at: dict[str, Any], *points: Any) -> Cells:
        """The cells at these points of the axis."""
        return tuple({**at, self.along: point} for point in points)


class Order(AlongClaim):
    """The value falls (or rises) from each point of an axis to the next."""

    check: Literal["order"] = "order"
    direction: Literal["falls", "rises"] = "falls"
    strict: bool = True
    """False: neighbours may tie within `margin`, only the two ends must differ."""
    margin: float = Field(default=0.0, ge=0)
    """With `strict: false`: by how much a step may go the wrong way, in units of the value."""

    @property
    def margin_asked(self) -> float:
        return 0.0 if self.strict else self.margin

    def point(self, grid: Grid, at: dict[str, Any]) -> Point:
        values = self.values(grid, at)

        def step(a: Any, b: Any, strict: bool) -> Comparison:
            larger, smaller = (a, b) if self.direction == "falls" else (b, a)
            about = f"least clear step: from {self.named(a)} to {self.named(b)} it {self.direction} by"
            loose: dict[str, Any] = {"by": -self.margin, "asked": f", margin {self.margin:g}", "room": self.margin}
            asked = {"by": -0.0} if strict else loose
            return self.larger(
                grid, values[larger], values[smaller], about, self.cells(at, a, b), strict=strict, **asked
            )

        steps = [step(a, b, self.strict) for a, b in pairwise(values)]
        if not self.strict:
            first, *_, last = values
            steps.append(step(first, last, True))
        return Point(at, AllOf(steps), self.listing(values))


class BestAt(AlongClaim):
    """The value is best at one point of an axis."""

    check: Literal["best_at"] = "best_at"
    at: Any
    """The point that beats every other."""

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        return [*super().values_named, ("at", self.along, self.at)]

    def point(self, grid: Grid, at: dict[str, Any]) -> Point:
        values = self.values(grid, at)
        if self.at not in values:
            raise NotRunError(f"{self.along} = {self.at} is not run at this scale")
        ahead = [
            self.better(
                grid,
                values[self.at],
                x,
                f"{self.named(self.at)} is better than {self.named(rival)} by",
                self.cells(at, self.at, rival),
            )
            for rival, x in values.items()
            if rival != self.at
        ]
        return Point(at, AllOf(ahead), self.listing(values))


class InteriorBest(AlongClaim):
    """Some point inside an axis beats both of its ends."""

    check: Literal["interior_best"] = "interior_best"

    def point(self, grid: Grid, at: dict[str, Any]) -> Point:
        values = self.values(grid, at)
        first, *inside, last = values
        if not inside:
            raise NotRunError(f"{self.along} has no interior point at this scale")

        def beats(best: Any, end: Any) -> Comparison:
            about = f"{self.named(best)} is better than the end {self.named(end)} by"
            return self.better(grid, values[best], values[end], about, self.cells(at, best, end))

        # Which point inside is best is found on the same seeds: each of them has a part of the level.
        found = [AllOf([beats(best, first), beats(best, last)]) for best in inside]
        return Point(at, AnyOf(found), self.listing(values))


class Crossover(AlongClaim):
    """The curve of `early` is better before the given rounds, that of `late` after them."""

    check: Literal["crossover"] = "crossover"
    early: Any
    """Axis value that is ahead at first."""
    late: Any
    """Axis value that is ahead afterwards."""
    rounds: tuple[int, int]
    """The crossing lies between these two rounds."""

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        return [*super().values_named, ("early", self.along, self.early), ("late", self.along, self.late)]

    def compares(self, values: Mapping[str, Any]) -> bool:
        return super().compares(values) and values[self.along] in (self.early, self.late)

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        return [*super().columns_named, ("value", "rounds", self.column)]

    @property
    def rounds_named(self) -> list[tuple[str, int]]:
        return [*super().rounds_named, *(("rounds", number) for number in self.rounds)]

    def point(self, grid: Grid, at: dict[str, Any]) -> Point:
        first, then = self.cells(at, self.early, self.late)
        ends = {v: self.read(grid, cell) for v, cell in ((self.early, first), (self.late, then))}
        before, after = self.rounds
        last = int(grid.curve(self.column, first).index.max())
        if last <= after:
            raise NotRunError(f"the runs end at round {last}, the crossing is expected at {before}..{after}")

        def lead(a: dict[str, Any], b: dict[str, Any], start: int, end: int, about: str) -> Comparison:
            found = [grid.window(self.column, cell, start, end, self.low_is_good) for cell in (a, b)]
            one, other = (Sample(x.seeds, self.on_scale(x.values)) for x in found)
            return self.better(grid, one, other, about, (a, b))

        ahead = lead(first, then, 1, before, f"until round {before} {self.named(self.early)} is ahead by")
        behind = lead(then, first, after, last, f"from round {after} {self.named(self.late)} is ahead by")
        crossings = self._crossings(grid, first, then)
        told = f"cross at round {', '.join(map(str, crossings))}" if crossings else "never cross"
        return Point(at, AllOf((ahead, behind)), f"{self.listing(ends)}; mean curves {told}")

    def _crossings(self, grid: Grid, first: dict[str, Any], then: dict[str, Any]) -> list[int]:
        """Rounds at which the mean curve that is ahead changes."""
        gap = (grid.curve(self.column, first) - grid.curve(self.column, then)).dropna()
        signs = np.sign(gap.to_numpy())
        return [int(gap.index[int(i) + 1]) for i in np.flatnonzero(signs[1:] * signs[:-1] < 0)]
