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
"""Number of directions that are guessed and tested in parallel."""
MIN_CLIENTS = 3
"""Minimum number of clients that a direction is the mean of."""
MAX_ROUNDS = 30
"""Maximum number of rounds in which the clients that a direction is the mean of are chosen anew."""


@dataclass(frozen=True)
class Direction:
    """A weighted mean of the clients' mean updates, or the difference of two such means."""

    weights: NDArray[np.float64]
    """(clients,) > 0 on one side, < 0 on the other if there is one; 0 for clients that are not part of it."""

    def without_clients(
        self, clients: NDArray[np.int64], means: ClientMeans, n_parameters: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the direction with each of `clients` (n,) left out in turn, in order to measure that client along it.

        Returns the weights (n, clients), whose absolute values sum to 1 on each side; the length (n,) of each weighted
        sum of means; and this length (n,) without the contribution of noise, 0 if there is only noise. Both lengths are
        0 if fewer than two clients remain on a side.
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
    """Return `GUESSES` directions, each the mean of a group of clients; an empty tuple if fewer than `MIN_CLIENTS`
    clients have a mean or most means are 0.

    The first group starts from all clients, the second from the larger side of the leading eigenvector of the cosines.
    Each group is then chosen anew as the clients with a positive sum of cosines with its members, until it no longer
    changes. Long updates count no more than those of median length.
    """
    present = means.present
    if len(present) < MIN_CLIENTS:
        return ()
    cosines, lengths = cosines_of(means)
    if not lengths.any():
        return ()
    leading = _leading_eigenvector(cosines)
    larger_side = leading > 0 if 2 * (leading > 0).sum() >= len(present) else leading < 0
    directions = []
    for members in (np.ones(len(present), dtype=bool), larger_side):
        weights = np.zeros(len(means.rows))
        weights[present] = _drop_opponents(cosines, members) / lengths
        directions.append(Direction(weights))
    return tuple(directions)


def cosines_of(means: ClientMeans) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cosines (n, n) of the n means that are present, and the length (n,) that each was divided by.

    Means shorter than the median length are divided by the median length instead of their own. If the median is 0, all
    cosines and lengths are 0. The diagonal of the cosines, which is mostly noise, is 0.
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
    """Return the group (n,) bool that `members` (n,) becomes by repeatedly choosing all clients with a positive sum of
    `cosines` (n, n) with its members.

    It ends when the group no longer changes, after `MAX_ROUNDS`, or before fewer than `MIN_CLIENTS` would be left.
    """
    for _ in range(MAX_ROUNDS):
        along = cosines @ members > 0
        if along.sum() < MIN_CLIENTS or np.array_equal(along, members):
            break
        members = along
    return members


def _leading_eigenvector(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return approximately the unit eigenvector (n,) of the greatest eigenvalue of a symmetric `matrix` (n, n), of
    either sign."""
    n = len(matrix)
    # Iterate several vectors, so that a large negative eigenvalue does not displace the leading one.
    basis = np.cos(np.outer(np.arange(n) + 0.5, np.arange(min(n, 8))) * np.pi / n)
    for _ in range(12):
        basis = np.linalg.qr(matrix @ basis)[0]
    return np.asarray(basis @ np.linalg.eigh(basis.T @ matrix @ basis)[1][:, -1])
