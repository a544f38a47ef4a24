"""Multi-Krum: averages the updates with the smallest Krum scores."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.messages import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.distances import squared_distances
from asyncfl.defences.krum import Krum, krum_scores
from asyncfl.defences.robust_rule import weighted_sum


class MultiKrum(Krum):
    """Mean of the updates with the smallest Krum scores.

    Use it in place of Krum if single updates are noisy. Weights do not enter the selection, but the mean of the
    selected updates. Source: Blanchard et al. 2017, Multi-Krum.
    """

    kind: Literal["multi_krum"] = "multi_krum"  # type: ignore[assignment]
    chosen: Annotated[int, Field(ge=1), MeasuredIn("updates")] | None = None
    """Number of updates to average, >= 1; null: n - f. All are averaged if it exceeds n."""

    def solve(self, updates: Vector, shares: NDArray[np.float64]) -> tuple[Vector, NDArray[np.float64]]:
        """Return the mean of the selected rows and their weights, see `RobustRule.solve`."""
        n = len(updates)
        attackers = self.allowed(n)
        scores = krum_scores(squared_distances(updates), attackers, self.neighbours)
        best = np.argsort(scores, kind="stable")[: n - attackers if self.chosen is None else self.chosen]
        weighed = np.zeros(n)
        weighed[best] = shares[best] / shares[best].sum()
        return weighted_sum(weighed, updates), weighed

    def notes(self, collected: int) -> list[str]:
        found = super().notes(collected)
        if self.chosen is not None and self.chosen > self.rows(collected):
            found.append(
                f"chosen {self.chosen} is more than the {self.rows(collected)} updates of a buffer: all are averaged"
            )
        return found
