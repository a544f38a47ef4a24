"""Guessed directions that many clients' updates share, from the means of each client's last updates.

A guess need not be right, because it is tested on later updates, see `side_test`. It must be made before these arrive,
so that their noise is independent of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.evidence.client_means import ClientMeans

GUESSES = 2
"""Number of directions that are tried in parallel."""
MIN_CLIENTS = 3
"""Minimum number of clients that a direction is the mean of."""
MAX_ROUNDS = 30
"""Maximum number of rounds in which clients against the mean of the rest are dropped."""


@dataclass(frozen=True)
class Direction:
    """A weighted mean of the clients' mean updates, or the difference of two such means."""

    weights: NDArray[np.float64]
    """(clients,) > 0 on one side, < 0 on the other if there is one; 0 for clients that are not part of it."""

    def without_clients(
        self, clients: NDArray[np.int64], means: ClientMeans, n_parameters: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the direction with each of `clients` (n,) left out in turn, in order to measure that client along it.

        Returns the weights (n, clients), which sum to 1 on each side; (n,) the lengths of the weighted sums; and (n,)
        these lengths without noise: 0 if there is only noise, or fewer than two clients remain on a side.
        """
        weights = np.tile(self.weights, (len(clients), 1))
        weights[np.arange(len(clients)), clients] = 0.0
        enough = np.ones(len(clients), dtype=bool)
        for side in (self.weights > 0, self.weights < 0):
            if side.any():
                enough &= np.count_nonzero(weights[:, side], axis=1) >= MIN_CLIENTS - 1
                total = np.abs(weights[:, side]).sum(axis=1)
                weights[:, side] /= np.where(total > 0, total, np.inf)[:, None]
        square = np.where(enough, np.einsum("ij,ij->i", weights @ means.gram, weights), 0.0)
        noise = n_parameters * np.square(weights * means.noise_std).sum(axis=1)
        return weights, np.sqrt(np.maximum(square, 0.0)), np.sqrt(np.maximum(square - noise, 0.0))


def guess_directions(means: ClientMeans) -> tuple[Direction, ...]:
    """Return up to `GUESSES` directions.

    The first starts from all clients, the second from the larger side of the leading eigenvector of the inner products.
    Clients with a negative product with the rest are dropped until none is left. Long and short updates count equally.
    """
    present = means.present
    if len(present) < MIN_CLIENTS:
        return ()
    cosines, lengths = cosines_of(means)
    if not lengths.any():
        return ()
    leading = _leading(cosines)
    fuller = leading > 0 if 2 * (leading > 0).sum() >= len(present) else leading < 0
    made = []
    for first in (np.ones(len(present), dtype=bool), fuller):
        weights = np.zeros(len(means.rows))
        weights[present] = _drop_opponents(cosines, first) / lengths
        made.append(Direction(weights))
    return tuple(made)


def cosines_of(means: ClientMeans) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cosines (n, n) of the n means that are present, and the divisors (n,) of their rows.

    Means shorter than the median length are divided by the median length; all cosines are 0 if that is 0. The diagonal,
    which is mostly noise, is 0.
    """
    present = means.present
    gram = means.gram[np.ix_(present, present)]
    lengths = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    usual = float(np.median(lengths)) if len(present) else 0.0
    if usual == 0:
        return np.zeros_like(gram), np.zeros(len(present))
    lengths = np.maximum(lengths, usual)
    cosines = gram / np.outer(lengths, lengths)
    np.fill_diagonal(cosines, 0.0)
    return cosines, lengths


def _drop_opponents(cosines: NDArray[np.float64], members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    for _ in range(MAX_ROUNDS):
        along = cosines @ members > 0
        if along.sum() < MIN_CLIENTS or np.array_equal(along, members):
            break
        members = along
    return members


def _leading(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Approximate the eigenvector (n,) of the greatest eigenvalue of a symmetric `matrix` (n, n)."""
    n = len(matrix)
    # Iterate several vectors, so that a large negative eigenvalue does not displace the leading one.
    basis = np.cos(np.outer(np.arange(n) + 0.5, np.arange(min(n, 8))) * np.pi / n)
    for _ in range(12):
        basis = np.linalg.qr(matrix @ basis)[0]
    return np.asarray(basis @ np.linalg.eigh(basis.T @ matrix @ basis)[1][:, -1])
