"""A claim that two curves over rounds cross."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from asyncfl.analysis.claims.base import AlongClaim, PointVerdict, answer_of, seeds_in
from asyncfl.analysis.grid import Grid, MissingError
from asyncfl.analysis.statistics import Interval


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

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        return [*super().columns_named, ("value", "rounds", self.column)]

    @property
    def rounds_named(self) -> list[tuple[str, int]]:
        return [*super().rounds_named, *(("rounds", number) for number in self.rounds)]

    def judge_at(self, grid: Grid, at: dict[str, Any]) -> PointVerdict:
        first, then = {**at, self.along: self.early}, {**at, self.along: self.late}
        ends = {v: self.read(grid, {**at, self.along: v}) for v in (self.early, self.late)}
        before, after = self.rounds
        last = int(grid.curve(self.column, first).index.max())
        if last <= after:
            raise MissingError(f"the runs end at round {last}, the crossing is expected at {before}..{after}")

        def lead(a: dict[str, Any], b: dict[str, Any], start: int, end: int) -> Interval:
            means = [self.on_scale(grid.window(self.column, point, start, end)) for point in (a, b)]
            return self.better(grid, *means)

        ahead, behind = lead(first, then, 1, before), lead(then, first, after, last)
        crossings = self._crossings(grid, first, then)
        measured = (
            f"mean curves cross at round {', '.join(map(str, crossings))}" if crossings else "mean curves never cross"
        )
        reason = f"until round {before} {self.named(self.early)} is ahead by {self.in_words(ahead)}"
        reason += f"; from round {after} {self.named(self.late)} is, by {self.in_words(behind)}"
        measured = f"{self.listing(ends)}; {measured}"
        return PointVerdict(at, answer_of([ahead, behind]), measured, reason, seeds_in(ends))

    def _crossings(self, grid: Grid, first: dict[str, Any], then: dict[str, Any]) -> list[int]:
        """Rounds at which the mean curve that is ahead changes."""
        gap = (grid.curve(self.column, first) - grid.curve(self.column, then)).dropna()
        signs = np.sign(gap.to_numpy())
        return [int(gap.index[int(i) + 1]) for i in np.flatnonzero(signs[1:] * signs[:-1] < 0)]
