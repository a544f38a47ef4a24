"""A claim that a value is best at a given point of an axis."""

from __future__ import annotations

from typing import Any, Literal

from asyncfl.analysis.claims.base import AlongClaim, PointVerdict, answer_of, seeds_in, weakest_of
from asyncfl.analysis.grid import Grid, MissingError


class BestAt(AlongClaim):
    """The value is best at one point of an axis."""

    check: Literal["best_at"] = "best_at"
    at: Any
    """The point that beats every other."""

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        return [*super().values_named, ("at", self.along, self.at)]

    def judge_at(self, grid: Grid, at: dict[str, Any]) -> PointVerdict:
        values = self.values(grid, at)
        if self.at not in values:
            raise MissingError(f"{self.along} = {self.at} is not run at this scale")
        gains = {v: self.better(grid, values[self.at], x) for v, x in values.items() if v != self.at}
        answer = answer_of(list(gains.values()))
        rival, weakest = weakest_of(gains, answer)
        reason = f"{self.named(self.at)} is better than {self.named(rival)} by {self.in_words(weakest)}"
        return PointVerdict(at, answer, self.listing(values), reason, seeds_in(values))
