"""A claim that a value falls or rises along an axis."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

from pydantic import Field

from asyncfl.experiments.claims.along import AlongClaim
from asyncfl.experiments.claims.asked import Asked
from asyncfl.experiments.claims.base import Point
from asyncfl.experiments.evidence.decision import AllOf, Comparison
from asyncfl.experiments.evidence.samples import Sample
from asyncfl.experiments.grid import Grid


class Order(AlongClaim):
    """The value falls (or rises) from each point of an axis to the next."""

    check: Literal["order"] = "order"
    direction: Literal["falls", "rises"] = "falls"
    strict: bool = True
    """False: neighbours may tie within `margin`, only the two ends must differ."""
    margin: float = Field(default=0.0, ge=0)
    """With `strict: false`: by how much a step may go the wrong way, in units of the value."""

    @property
    def margin_asked(self) -> float:
        return 0.0 if self.strict else self.margin

    def point(self, grid: Grid, at: dict[str, Any]) -> Point:
        values = self.values(grid, at)
        margin = 0.0 if self.strict else self.margin
        steps = [self._step(grid, at, values, a, b, self.strict, margin) for a, b in pairwise(values)]
        if not self.strict:
            first, *_, last = values
            steps.append(self._step(grid, at, values, first, last, True, 0.0))
        return Point(at, AllOf(steps), self.listing(values))

    def _step(
        self, grid: Grid, at: dict[str, Any], values: dict[Any, Sample], a: Any, b: Any, strict: bool, margin: float
    ) -> Comparison:
        larger, smaller = (a, b) if self.direction == "falls" else (b, a)
        asked = Asked(
            f"least clear step: from {self.named(a)} to {self.named(b)} it {self.direction} by",
            self.cells(at, a, b),
            -margin,
            "" if strict else f", margin {margin:g}",
            strict,
            room=None if strict else margin,
        )
        return self.larger(grid, values[larger], values[smaller], asked)
