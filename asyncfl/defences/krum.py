"""Krum and Multi-Krum: select the updates with the smallest summed squared distance to their nearest neighbours."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.distances import squared_distances
from asyncfl.defences.robust_rule import CountingRule, weighted_sum


def krum_scores(distances: Floats, attackers: int) -> Floats:
    """Return each row's sum of its n - f - 2 smallest squared distances to other rows, (n,); at least one, or 0 for a
    single row. Krum selects the row of least score. `distances`: (n, n) squared. `attackers`: f."""
    n = len(distances)
    others = distances.copy()
    # A row is not its own neighbour, even if other rows are at distance 0.
    np.fill_diagonal(others, np.inf)
    others.sort(axis=1)
    return np.asarray(others[:, : min(max(1, n - attackers - 2), n - 1)].sum(axis=1))


class Krum(CountingRule):
    """The update with the smallest sum of squared distances to its n - f - 2 nearest neighbours.

    Use it if attackers are few and clients' data are alike. With noisy updates it passes on the full noise of one
    client. Weights do not enter the selection. Ties go to the earlier arrival, up to rounding. Source: Blanchard et al.
    2017, section 4. Requires n >= 2f + 3. byzfl counts one neighbour more, as here with `byzantine` lower by one.
    """

    kind: Literal["krum"] = "krum"

    by_theory: ClassVar[tuple[int, int]] = (2, 3)
    computable: ClassVar[tuple[int, int]] = (1, 3)

    def solve(self, updates: Vector, shares: Floats) -> tuple[Vector, Floats]:
        scores = krum_scores(squared_distances(updates), self.attackers(len(updates)))
        chosen = np.zeros(len(updates))
        chosen[np.argmin(scores)] = 1
        return weighted_sum(chosen, updates), chosen


class MultiKrum(Krum):
    """Mean of the updates with the smallest Krum scores.

    Use it in place of Krum if single updates are noisy. Weights do not enter the selection, but the mean of the
    selected updates. Source: Blanchard et al. 2017, Multi-Krum.
    """

    kind: Literal["multi_krum"] = "multi_krum"  # type: ignore[assignment]
    chosen: Annotated[int, Field(ge=1), MeasuredIn("updates")] | None = None
    """Number of updates to average, >= 1; null: n - f. All are averaged if it exceeds n."""

    def solve(self, updates: Vector, shares: Floats) -> tuple[Vector, Floats]:
        n, attackers = len(updates), self.attackers(len(updates))
        scores = krum_scores(squared_distances(updates), attackers)
        best = np.argsort(scores, kind="stable")[: n - attackers if self.chosen is None else self.chosen]
        weighed = np.zeros(n)
        weighed[best] = shares[best] / shares[best].sum()
        return weighted_sum(weighed, updates), weighed

    def notes(self, collected: int) -> list[str]:
        found, rows = super().notes(collected), self.rows(collected)
        if self.chosen is not None and self.chosen > rows:
            found.append(f"chosen {self.chosen} is more than the {rows} updates of a buffer: all are averaged")
        return found
