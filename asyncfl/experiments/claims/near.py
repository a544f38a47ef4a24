"""A claim that a value is about what the source measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from asyncfl.experiments.claims.asked import Asked
from asyncfl.experiments.claims.base import ClaimBase, Point
from asyncfl.experiments.evidence.decision import AllOf
from asyncfl.experiments.grid import Grid


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
        asked = Asked(about, (at,), room=self.tolerance)
        low = self.above(grid, x, target - self.tolerance, asked)
        high = self.above(grid, x, target + self.tolerance, replace(asked, sign=-1.0))
        return Point(at, AllOf((low, high)), f"{self.value} {self.mean_in_words(self.mean(x))}")
