"""A claim that one point of an axis is several times better than another."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from asyncfl.analysis.claims.base import Answer, answer_of
from asyncfl.analysis.claims.pair import PairClaim
from asyncfl.analysis.statistics import Interval


class Times(PairClaim):
    """`at` is better than `than` by a factor."""

    check: Literal["times"] = "times"
    factor: float = Field(gt=0)
    """How many times better: a value to be low is divided by this, one to be high multiplied. 1 asks for better at all,
    which a tie is not."""
    log: Literal[True] = True
    """Ratios are differences of logarithms."""

    @property
    def asked(self) -> str:
        return f"wanted {self.factor:g}"

    def answer(self, gain: Interval) -> Answer:
        if self.factor == 1:
            return answer_of([gain])
        wanted = float(np.log(self.factor))
        if gain.low >= wanted:
            return "holds"
        return "does not hold" if gain.high < wanted else "not decided"
