"""A claim that one point of an axis is several times better than another."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from asyncfl.analysis.claims.pair import Cells, PairClaim
from asyncfl.analysis.evidence.decision import Evidence
from asyncfl.analysis.evidence.samples import Sample
from asyncfl.analysis.grid import Grid


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
        return f", wanted {self.factor:g}"

    def evidence(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells) -> Evidence:
        wanted = float(np.log(self.factor))
        return self.better(grid, a, b, about, by=wanted, asked=self.asked, strict=self.factor == 1, cells=cells)
