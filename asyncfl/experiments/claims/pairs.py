"""Claims that compare two points of an axis."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from asyncfl.experiments.claims.along import AlongClaim
from asyncfl.experiments.claims.base import Cells, Point
from asyncfl.experiments.evidence.decision import AllOf, ClaimEvidence
from asyncfl.experiments.evidence.samples import Sample
from asyncfl.experiments.grid import Grid


class PairClaim(AlongClaim):
    """What claims that compare two points of an axis have."""

    at: Any
    """The point that the claim is about."""
    than: Any
    """The point it is compared with."""

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        return [*super().values_named, ("at", self.along, self.at), ("than", self.along, self.than)]

    def compares(self, values: Mapping[str, Any]) -> bool:
        return super().compares(values) and values[self.along] in (self.at, self.than)

    @abstractmethod
    def evidence(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells) -> ClaimEvidence:
        """Compare `a`, the value of `at`, with `b`, that of `than`."""

    def point(self, grid: Grid, at: dict[str, Any]) -> Point:
        cells = self.cells(at, self.at, self.than)
        a, b = (self.read(grid, cell) for cell in cells)
        about = f"{self.named(self.at)} is better than {self.named(self.than)} by"
        return Point(at, self.evidence(grid, a, b, about, cells), self.listing({self.at: a, self.than: b}))


class NoWorse(PairClaim):
    """`at` is not worse than `than` by more than a margin."""

    check: Literal["no_worse"] = "no_worse"
    margin: float = Field(default=0.0, ge=0)
    """Loss of quality that is still accepted, in units of the value."""

    @property
    def margin_asked(self) -> float:
        return self.margin

    def evidence(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells) -> ClaimEvidence:
        asked = f", margin {self.margin:g}"
        return self.better(grid, a, b, about, cells, by=-self.margin, asked=asked, strict=False, room=self.margin)


class Alike(PairClaim):
    """`at` and `than` differ by no more than a margin, either way."""

    check: Literal["alike"] = "alike"
    margin: float = Field(gt=0)
    """Difference that still counts as alike, in units of the value."""

    @property
    def margin_asked(self) -> float:
        return self.margin

    def evidence(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells) -> ClaimEvidence:
        asked: dict[str, Any] = {"by": -self.margin, "asked": f", alike within {self.margin:g}"}
        asked |= {"strict": False, "room": self.margin}
        down = self.better(grid, a, b, about, cells, **asked)
        return AllOf((down, self.better(grid, b, a, about, cells, **asked, sign=-1.0)))


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
    def wanted(self) -> float:
        """The factor that must be reached."""
        return 1 + self.share * (self.factor - 1)

    def evidence(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells) -> ClaimEvidence:
        by = float(np.log(self.wanted))
        # a claim that says what the source measured is true to the letter where the whole gain is there
        room = None if self.factor == 1 else float(np.log(self.factor)) - by
        asked = f", wanted {self.factor:g}"
        if self.share < 1:
            asked = f", wanted {self.wanted:.4g}: {self.share:.0%} of the gain of {self.factor:g}"
        return self.better(grid, a, b, about, cells, by=by, asked=asked, strict=self.factor == 1, room=room)
