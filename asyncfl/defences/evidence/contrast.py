"""The difference between a majority of clients and the rest, where that is all that clients differ by.

Let c_ij be the cosine of the means of clients i and j, i != j, and r_ij what is left of it without what i and j have in
common with everybody: the residual of the best fit g + g_i + g_j,

    r_ij = c_ij - (s_i + s_j) / (n - 2) + s / ((n - 1) (n - 2)),   s_i = sum_j c_ij, s = sum_i s_i, r_ii = 0.

Noise of different clients is independent, so that r is noise about the products of what clients differ by. If they are
alike but for one group, its leading eigenvalue stands by itself; if they differ in several ways (labels in unequal
shares, several domains), or not at all, the second is about as large. Only in the first case there is a direction: from
the mean of those on the leading eigenvector's fuller side to that of the others. It is a guess like others, tested on
later updates alone; but it does go against a group of honest clients, where these are of two kinds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.evidence.client_means import ClientMeans
from asyncfl.defences.evidence.directions import MIN_CLIENTS, Direction, cosines_of

MAX_EIGENVALUE_RATIO = 1 / 3
"""The second eigenvalue, as a share of the first, up to which this one stands by itself. Of small federations of
clients that differ by noise alone, in labels or in domains none came below .5 once all clients had been seen."""


def contrast(means: ClientMeans) -> tuple[Direction, ...]:
    """The difference in which a group of fewer than half of all clients stands apart, or nothing."""
    present = means.present
    if 2 * len(present) <= len(means.rows) or len(present) < 2 * MIN_CLIENTS:
        return ()
    cosines, lengths = cosines_of(means)
    values, vectors = np.linalg.eigh(residuals(cosines))
    if values[-1] <= 0 or values[-2] > MAX_EIGENVALUE_RATIO * values[-1]:
        return ()
    side = vectors[:, -1] > 0
    if 2 * side.sum() < len(present):
        side = ~side
    weights = np.zeros(len(means.rows))
    weights[present] = np.where(side, 1.0, -1.0) / lengths
    return (Direction(weights),) if min(side.sum(), (~side).sum()) >= MIN_CLIENTS - 1 else ()


def residuals(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, n) r of `cosines` (n, n), symmetric with a diagonal of 0, n > 2."""
    n, sums = len(cosines), cosines.sum(axis=1)
    left = cosines - (sums[:, None] + sums) / (n - 2) + sums.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(left, 0.0)
    return np.asarray(left)
