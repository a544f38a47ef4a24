"""Claims about a value itself."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from asyncfl.experiments.claims.base import ClaimBase, Point
from asyncfl.experiments.columns import unit_of
from asyncfl.experiments.evidence.decision import AllOf, Kind
from asyncfl.experiments.evidence.samples import Sample
from asyncfl.experiments.grid import Grid


class AtLeast(ClaimBase):
    """The value reaches a threshold (with `goal: low`: stays at or below it)."""

    check: Literal["at_least"] = "at_least"
    threshold: float

    tolerated: float = Field(default=0.1, gt=0, lt=1)
    """Of counts: share of runs that may break the claim. No number of clean runs shows that it never happens."""

    def kind_of(self, grid: Grid, *samples: Sample) -> Kind:
        kind = super().kind_of(grid, *samples)
        counted = self.judged_as is None and kind == "statistical" and unit_of(self.column) == "clients"
        return "count" if counted else kind

    def in_words(self, low: float, high: float) -> str:
        # the value itself is no difference: on a logarithm too no factor
        if not self.log:
            return super().in_words(low, high)
        with np.errstate(over="ignore"):
            return self.interval(float(np.exp(low)), float(np.exp(high)))

    def point(self, grid: Grid, at: dict[str, Any]) -> Point:
        self.check_rounds(grid, self.threshold)
        x = self.read(grid, at)
        threshold = float(self.on_scale(np.array(self.threshold)))
        side, sign = ("at most", -1.0) if self.low_is_good else ("at least", 1.0)
        about = f"wanted {side} {self.amount(self.threshold)}, got"
        evidence = self.above(grid, x, threshold, about, (at,), sign, tolerated=self.tolerated)
        return Point(at, evidence, f"{self.value} {self.mean_in_words(self.mean(x))}")


class Near(ClaimBase):
    """The value is what the source measured, within a tolerance."""

    check: Literal["near"] = "near"
    target: float
    """The source's number."""
    tolerance: float = Field(gt=0)
    """How far from it the mean may be, in units of the value."""

    @property
    def margin_asked(self) -> float:
        return self.tolerance

    def point(self, grid: Grid, at: dict[str, Any]) -> Point:
        self.check_rounds(grid, self.target + self.tolerance)
        x = self.read(grid, at)
        target = float(self.on_scale(np.array(self.target)))
        about = f"wanted {self.amount(self.target)} ± {self.tolerance:g}, got"
        low = self.above(grid, x, target - self.tolerance, about, (at,), room=self.tolerance)
        high = self.above(grid, x, target + self.tolerance, about, (at,), sign=-1.0, room=self.tolerance)
        return Point(at, AllOf((low, high)), f"{self.value} {self.mean_in_words(self.mean(x))}")
