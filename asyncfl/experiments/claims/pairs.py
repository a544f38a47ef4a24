"""Claims that compare two points of an axis."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from asyncfl.experiments.claims.along import AlongClaim
from asyncfl.experiments.claims.base import Asked, Point
from asyncfl.experiments.evidence.decision import AllOf, ClaimEvidence
from asyncfl.experiments.evidence.samples import Sample
from asyncfl.experiments.grid import Grid

Cells = tuple[dict[str, Any], ...]


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

    @property
    @abstractmethod
    def asked(self) -> str:
        """What is asked of the comparison, in words that follow it."""

    @abstractmethod
    def evidence(self, grid: Grid, a: Sample, b: Sample, about: str, cells: Cells) -> ClaimEvidence:
        """What the claim rests on. a, b: values of `at` and `than`; about, cells: what is compared."""

    def point(self, grid: Grid, at: dict[str, Any]) -> Point:
        values = {v: self.read(grid, {**at, self.along: v}) for v in (self.at, self.than)}
        about = f"{self.named(self.at)} is better than {self.named(self.than)} by"
        cells = self.cells(at, self.at, self.than)
        evidence = self.evidence(grid, values[self.at], values[self.than], about, cells)
        return Point(at, evidence, self.listing(values))


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
