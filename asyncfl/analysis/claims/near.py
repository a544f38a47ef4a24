"""A claim that a value is about what the source measured."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from asyncfl.analysis.claims.base import Answer, ClaimBase, PointVerdict
from asyncfl.analysis.grid import Grid
from asyncfl.analysis.statistics import t_interval


class Near(ClaimBase):
    """The value is what the source measured, within a tolerance."""

    check: Literal["near"] = "near"
    target: float
    """The source's number."""
    tolerance: float = Field(gt=0)
    """How far from it the mean may be, in units of the value."""

    def judge_at(self, grid: Grid, at: dict[str, Any]) -> PointVerdict:
        x = self.read(grid, at)
        span = t_interval(x, grid.exact)
        target = float(self.on_scale(np.array(self.target)))
        low, high = target - self.tolerance, target + self.tolerance
        inside, outside = span.low >= low and span.high <= high, span.high < low or span.low > high
        answer: Answer = "holds" if inside else "does not hold" if outside else "not decided"
        reason = f"wanted {self.amount(self.target)} ± {self.tolerance:g}, got {self.in_words(span)}"
        return PointVerdict(at, answer, f"{self.value} {self.mean_in_words(self.mean(x))}", reason, len(x))
