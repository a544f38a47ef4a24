"""A claim that two points of an axis are equally good."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from asyncfl.analysis.claims.base import Answer
from asyncfl.analysis.claims.pair import PairClaim
from asyncfl.analysis.statistics import Interval


class Alike(PairClaim):
    """`at` and `than` differ by no more than a margin, either way."""

    check: Literal["alike"] = "alike"
    margin: float = Field(gt=0)
    """Difference that still counts as alike, in units of the value."""

    @property
    def asked(self) -> str:
        return f"alike within {self.margin:g}"

    def answer(self, gain: Interval) -> Answer:
        if gain.low >= -self.margin and gain.high <= self.margin:
            return "holds"
        return "does not hold" if gain.low > self.margin or gain.high < -self.margin else "not decided"
