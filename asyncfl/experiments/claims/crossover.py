"""A claim that two curves over rounds cross."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from asyncfl.experiments.claims.along import AlongClaim
from asyncfl.experiments.claims.asked import Asked
from asyncfl.experiments.claims.base import Point
from asyncfl.experiments.evidence.decision import AllOf, Comparison
from asyncfl.experiments.evidence.samples import Sample
from asyncfl.experiments.grid import Grid, NotRunError


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
        first, then = {**at, self.along: self.early}, {**at, self.along: self.late}
        ends = {v: self.read(grid, {**at, self.along: v}) for v in (self.early, self.late)}
        before, after = self.rounds
        last = int(grid.curve(self.column, first).index.max())
        if last <= after:
            raise NotRunError(f"the runs end at round {last}, the crossing is expected at {before}..{after}")

        def lead(a: dict[str, Any], b: dict[str, Any], start: int, end: int, about: str) -> Comparison:
            one, other = (self._window(grid, point, start, end) for point in (a, b))
            return self.better(grid, one, other, Asked(about, (a, b)))

        ahead = lead(first, then, 1, before, f"until round {before} {self.named(self.early)} is ahead by")
        behind = lead(then, first, after, last, f"from round {after} {self.named(self.late)} is ahead by")
        crossings = self._crossings(grid, first, then)
        measured = (
            f"mean curves cross at round {', '.join(map(str, crossings))}" if crossings else "mean curves never cross"
        )
        return Point(at, AllOf((ahead, behind)), f"{self.listing(ends)}; {measured}")

    def _window(self, grid: Grid, at: dict[str, Any], start: int, end: int) -> Sample:
        found = grid.window(self.column, at, start, end, self.low_is_good)
        return Sample(found.seeds, self.on_scale(found.values))

    def _crossings(self, grid: Grid, first: dict[str, Any], then: dict[str, Any]) -> list[int]:
        """Rounds at which the mean curve that is ahead changes."""
        gap = (grid.curve(self.column, first) - grid.curve(self.column, then)).dropna()
        signs = np.sign(gap.to_numpy())
        return [int(gap.index[int(i) + 1]) for i in np.flatnonzero(signs[1:] * signs[:-1] < 0)]
