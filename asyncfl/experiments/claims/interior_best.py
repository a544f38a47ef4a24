"""A claim that the best point of an axis is none of its ends."""

from __future__ import annotations

from typing import Any, Literal

from asyncfl.experiments.claims.along import AlongClaim
from asyncfl.experiments.claims.asked import Asked
from asyncfl.experiments.claims.base import Point
from asyncfl.experiments.evidence.decision import AllOf, AnyOf
from asyncfl.experiments.grid import Grid, NotRunError


class InteriorBest(AlongClaim):
    """Some point inside an axis beats both of its ends."""

    check: Literal["interior_best"] = "interior_best"

    def point(self, grid: Grid, at: dict[str, Any]) -> Point:
        values = self.values(grid, at)
        points = list(values)
        if len(points) < 3:
            raise NotRunError(f"{self.along} has no interior point at this scale")
        # Which point inside is best is found on the same seeds: each of them has a part of the level.
        inside = [
            AllOf(
                [
                    self.better(
                        grid,
                        values[best],
                        values[end],
                        Asked(
                            f"{self.named(best)} is better than the end {self.named(end)} by",
                            self.cells(at, best, end),
                        ),
                    )
                    for end in (points[0], points[-1])
                ]
            )
            for best in points[1:-1]
        ]
        return Point(at, AnyOf(inside), self.listing(values))
