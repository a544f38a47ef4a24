"""What claims that compare two points of an axis have."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from asyncfl.analysis.claims.base import AlongClaim, Answer, PointVerdict, seeds_in
from asyncfl.analysis.grid import Grid
from asyncfl.analysis.statistics import Interval


class PairClaim(AlongClaim):
    """What claims that compare two points of an axis have."""

    at: Any
    """The point that the claim is about."""
    than: Any
    """The point it is compared with."""

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        return [*super().values_named, ("at", self.along, self.at), ("than", self.along, self.than)]

    @property
    @abstractmethod
    def asked(self) -> str:
        """What is asked of the comparison, in words."""

    @abstractmethod
    def answer(self, gain: Interval) -> Answer:
        """The answer, from how much better `at` is than `than`."""

    def judge_at(self, grid: Grid, at: dict[str, Any]) -> PointVerdict:
        values = {v: self.read(grid, {**at, self.along: v}) for v in (self.at, self.than)}
        gain = self.better(grid, values[self.at], values[self.than])
        reason = f"{self.named(self.at)} is better than {self.named(self.than)} by {self.in_words(gain)}, {self.asked}"
        return PointVerdict(at, self.answer(gain), self.listing(values), reason, seeds_in(values))
