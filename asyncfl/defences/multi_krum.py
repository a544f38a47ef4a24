"""Multi-Krum: averages the updates whose nearest neighbours are nearest."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.defences.distances import squared_distances
from asyncfl.defences.krum import Krum, krum_scores
from asyncfl.defences.robust_rule import weighted_sum
from asyncfl.messages import Vector
from asyncfl.quantities import MeasuredIn


class MultiKrum(Krum):
    """Mean of the updates with the best Krum scores.

    Use it in place of Krum where single updates are noisy. Weights do not enter the choice, but the mean of
    the chosen. Source: Blanchard et al. 2017, Multi-Krum.
    """

    kind: Literal["multi_krum"] = "multi_krum"  # type: ignore[assignment]
    chosen: Annotated[int, Field(ge=1), MeasuredIn("updates")] | None = None
    """Updates that are averaged, >= 1; null: n - f. More than there are: all."""

    def solve(self, updates: Vector, shares: NDArray[np.float64]) -> tuple[Vector, NDArray[np.float64]]:
        """The mean of the chosen rows and what each weighs in it, see `RobustRule.solve`."""
        n = len(updates)
        attackers = self.allowed(n)
        scores = krum_scores(squared_distances(updates), attackers, self.neighbours)
        best = np.argsort(scores, kind="stable")[: n - attackers if self.chosen is None else self.chosen]
        weighed = np.zeros(n)
        weighed[best] = shares[best] / shares[best].sum()
        return weighted_sum(weighed, updates), weighed

    def notes(self, collected: int) -> list[str]:
        """See `Rule.notes`."""
        found = super().notes(collected)
        if self.chosen is not None and self.chosen > self.rows(collected):
            found.append(
                f"chosen {self.chosen} is more than the {self.rows(collected)} updates of a buffer: all are averaged"
            )
        return found
