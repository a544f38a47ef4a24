"""A claim that one point of an axis is not worse than another."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from asyncfl.analysis.claims.base import Answer
from asyncfl.analysis.claims.pair import PairClaim
from asyncfl.analysis.statistics import Interval


class NoWorse(PairClaim):
    """`at` is not worse than `than` by more than a margin."""

    check: Literal["no_worse"] = "no_worse"
    margin: float = Field(default=0.0, ge=0)
    """Loss of quality that is still accepted, in units of the value."""

    @property
    def asked(self) -> str:
        return f"margin {self.margin:g}"

    def answer(self, gain: Interval) -> Answer:
        if gain.low >= -self.margin:
            return "holds"
        return "does not hold" if gain.high < -self.margin else "not decided"
