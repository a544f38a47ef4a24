"""A claim that a value reaches a threshold."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from asyncfl.analysis.claims.base import Answer, ClaimBase, PointVerdict
from asyncfl.analysis.grid import Grid
from asyncfl.analysis.statistics import t_interval


class AtLeast(ClaimBase):
    """The value reaches a threshold (with `goal: low`: stays at or below it)."""

    check: Literal["at_least"] = "at_least"
    threshold: float

    def judge_at(self, grid: Grid, at: dict[str, Any]) -> PointVerdict:
        x = self.read(grid, at)
        span = t_interval(x, grid.exact)
        threshold = float(self.on_scale(np.array(self.threshold)))
        if self.low_is_good:
            kept, broken, sign = span.high <= threshold, span.low > threshold, "at most"
        else:
            kept, broken, sign = span.low >= threshold, span.high < threshold, "at least"
        answer: Answer = "holds" if kept else "does not hold" if broken else "not decided"
        reason = f"wanted {sign} {self.amount(self.threshold)}, got {self.in_words(span)}"
        return PointVerdict(at, answer, f"{self.value} {self.mean_in_words(self.mean(x))}", reason, len(x))
