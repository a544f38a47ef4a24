"""A claim that a value is best at a given point of an axis."""

from __future__ import annotations

from typing import Any, Literal

from asyncfl.experiments.claims.along import AlongClaim
from asyncfl.experiments.claims.asked import Asked
from asyncfl.experiments.claims.base import Point
from asyncfl.experiments.evidence.decision import AllOf
from asyncfl.experiments.grid import Grid, NotRunError


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
                Asked(f"{self.named(self.at)} is better than {self.named(rival)} by", self.cells(at, self.at, rival)),
            )
            for rival, x in values.items()
            if rival != self.at
        ]
        return Point(at, AllOf(ahead), self.listing(values))
