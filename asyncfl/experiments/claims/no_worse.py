"""A claim that one point of an axis is not worse than another."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from asyncfl.experiments.claims.asked import Asked
from asyncfl.experiments.claims.pair import Cells, PairClaim
from asyncfl.experiments.evidence.decision import ClaimEvidence
from asyncfl.experiments.evidence.samples import Sample
from asyncfl.experiments.grid import Grid


class NoWorse(PairClaim):
    """`at` is not worse than `than` by more than a margin."""

    check: Literal["no_worse"] = "no_worse"
    margin: float = Field(default=0.0, ge=0)
    """Loss of quality that is still accepted, in units of the value."""

    @property
    def asked(self) -> str:
        return f", margin {self.margin:g}"

    @property
    def margin_asked(self) -> float:
        return self.margin

    def evidence(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells) -> ClaimEvidence:
        asked = Asked(about, cells, -self.margin, self.asked, strict=False, room=self.margin)
        return self.better(grid, a, b, asked)
