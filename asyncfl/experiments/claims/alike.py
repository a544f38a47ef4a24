"""A claim that two points of an axis are equally good."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field

from asyncfl.experiments.claims.asked import Asked
from asyncfl.experiments.claims.pair import Cells, PairClaim
from asyncfl.experiments.evidence.decision import AllOf, ClaimEvidence
from asyncfl.experiments.evidence.samples import Sample
from asyncfl.experiments.grid import Grid


class Alike(PairClaim):
    """`at` and `than` differ by no more than a margin, either way."""

    check: Literal["alike"] = "alike"
    margin: float = Field(gt=0)
    """Difference that still counts as alike, in units of the value."""

    @property
    def asked(self) -> str:
        return f", alike within {self.margin:g}"

    @property
    def margin_asked(self) -> float:
        return self.margin

    def evidence(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells) -> ClaimEvidence:
        asked = Asked(about, cells, -self.margin, self.asked, strict=False, room=self.margin)
        down = self.better(grid, a, b, asked)
        up = self.better(grid, b, a, replace(asked, sign=-1.0))
        return AllOf((down, up))
