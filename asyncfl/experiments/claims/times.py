"""A claim that one point of an axis is several times better than another."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from asyncfl.experiments.claims.asked import Asked
from asyncfl.experiments.claims.pair import Cells, PairClaim
from asyncfl.experiments.evidence.decision import ClaimEvidence
from asyncfl.experiments.evidence.samples import Sample
from asyncfl.experiments.grid import Grid


class Times(PairClaim):
    """`at` is better than `than` by a factor."""

    check: Literal["times"] = "times"
    factor: float = Field(gt=0)
    """How many times better: a value to be low is divided by this, one to be high multiplied. 1 asks for better at all,
    which a tie is not."""
    share: float = Field(default=1.0, gt=0, le=1)
    """Part of the gain that must be there. Where `factor` is what the source measured itself, a true claim would fall
    short of the whole as often as not; half of the gain tells whether it is there."""
    log: Literal[True] = True
    """Ratios are differences of logarithms."""

    @property
    def asked(self) -> str:
        if self.share == 1:
            return f", wanted {self.factor:g}"
        return f", wanted {self.wanted:.4g}: {self.share:.0%} of the gain of {self.factor:g}"

    @property
    def wanted(self) -> float:
        """The factor that must be reached."""
        return 1 + self.share * (self.factor - 1)

    def evidence(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells) -> ClaimEvidence:
        by = float(np.log(self.wanted))
        # a claim that says what the source measured is true to the letter where the whole gain is there
        room = None if self.factor == 1 else float(np.log(self.factor)) - by
        asked = Asked(about, cells, by, self.asked, strict=self.factor == 1, room=room)
        return self.better(grid, a, b, asked)
