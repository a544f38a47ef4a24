"""A claim that a value falls or rises along an axis."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Literal

from asyncfl.analysis.claims.base import AlongClaim, Answer, PointVerdict, answer_of, seeds_in, weakest_of
from asyncfl.analysis.grid import Grid
from asyncfl.analysis.statistics import Interval, paired


class Order(AlongClaim):
    """The value falls (or rises) from each point of an axis to the next."""

    check: Literal["order"] = "order"
    direction: Literal["falls", "rises"] = "falls"
    strict: bool = True
    """False: neighbours may tie, only the two ends must differ and no neighbours in the wrong direction."""

    def judge_at(self, grid: Grid, at: dict[str, Any]) -> PointVerdict:
        values = self.values(grid, at)
        sign = 1.0 if self.direction == "falls" else -1.0

        def steps(pairs: Iterable[tuple[Any, Any]]) -> dict[tuple[Any, Any], Interval]:
            return {(a, b): paired(values[a], values[b], grid.exact).scaled(sign) for a, b in pairs}

        near = steps(pairwise(values))
        if self.strict:
            answer = answer_of(list(near.values()))
        else:
            ends = list(values)
            [far] = steps([(ends[0], ends[-1])]).values()
            answer = self._answer_with_ties(far, list(near.values()))
        (a, b), weakest = weakest_of(near, answer)
        step = f"from {self.named(a)} to {self.named(b)} it {self.direction} by {self.in_words(weakest)}"
        return PointVerdict(at, answer, self.listing(values), f"least clear step: {step}", seeds_in(values))

    @staticmethod
    def _answer_with_ties(far: Interval, near: list[Interval]) -> Answer:
        if far.high <= 0 or any(step.below_zero for step in near):
            return "does not hold"
        return "holds" if far.above_zero else "not decided"
