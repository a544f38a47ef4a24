"""The direction in which a minority of clients differs from the rest, if clients differ in no other way.

Let c_ij be the cosine of the mean updates of clients i and j, i != j. The residual r_ij of the best fit g + g_i + g_j
removes what i and j have in common with all clients:

    r_ij = c_ij - (s_i + s_j) / (n - 2) + s / ((n - 1) (n - 2)),   s_i = sum_j c_ij, s = sum_i s_i, r_ii = 0.

Noise of different clients is independent, so r is a noisy matrix of products of the clients' differences. If one group
differs from otherwise equal clients, the leading eigenvalue of r dominates. If clients differ in several ways (labels,
domains) or not at all, the second eigenvalue is about as large. Only in the first case there is a direction. The signs
of the leading eigenvector split the clients into two sides; the direction is the mean of the larger side minus that of
the smaller. It is a guess that is tested on later updates. It also points at honest clients if these are of two kinds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.evidence.client_means import ClientMeans
from asyncfl.defences.evidence.directions import MIN_CLIENTS, Direction, cosines_of

MAX_EIGENVALUE_RATIO = 1 / 3
"""Largest ratio of the second to the first eigenvalue at which the first dominates. In small federations of clients
that differ by noise, labels or domains only, no ratio was below .5 after all clients had sent an update."""


def contrast(means: ClientMeans) -> tuple[Direction, ...]:
    """Return the direction along which a minority of all clients differs from the rest, as a tuple of one.

    The direction is positive for the majority. The tuple is empty if no more than half of all clients have a mean, if
    these are fewer than six, if the first eigenvalue does not dominate (`MAX_EIGENVALUE_RATIO`), or if the minority is
    a single client.
    """
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
    """Return the residuals r (n, n) of `cosines` (n, n), which are symmetric with a diagonal of 0; n > 2."""
    n, sums = len(cosines), cosines.sum(axis=1)
    left = cosines - (sums[:, None] + sums) / (n - 2) + sums.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(left, 0.0)
    return np.asarray(left)
