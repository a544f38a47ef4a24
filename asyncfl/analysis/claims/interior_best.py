"""A claim that the best point of an axis is none of its ends."""

from __future__ import annotations

from typing import Any, Literal

from asyncfl.analysis.claims.base import AlongClaim, PointVerdict, answer_of, seeds_in, weakest_of
from asyncfl.analysis.grid import Grid, MissingError


class InteriorBest(AlongClaim):
    """Some point inside an axis beats both of its ends."""

    check: Literal["interior_best"] = "interior_best"

    def judge_at(self, grid: Grid, at: dict[str, Any]) -> PointVerdict:
        values = self.values(grid, at)
        points = list(values)
        if len(points) < 3:
            raise MissingError(f"{self.along} has no interior point at this scale")
        means = {v: self.mean(values[v]) for v in points[1:-1]}
        best = (min if self.low_is_good else max)(means, key=lambda v: means[v])
        gains = {end: self.better(grid, values[best], values[end]) for end in (points[0], points[-1])}
        answer = answer_of(list(gains.values()))
        end, weakest = weakest_of(gains, answer)
        reason = f"best inside is {self.named(best)}; better than the end {self.named(end)} by {self.in_words(weakest)}"
        return PointVerdict(at, answer, self.listing(values), reason, seeds_in(values))
