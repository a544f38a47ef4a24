"""What claims that compare two points of an axis have."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from asyncfl.experiments.claims.along import AlongClaim
from asyncfl.experiments.claims.base import Point
from asyncfl.experiments.evidence.decision import ClaimEvidence
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
