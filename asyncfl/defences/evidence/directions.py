"""Guessed directions that many clients' updates share, from the mean of each client's last updates.

A guess need not be right, because it is tested on later updates, see `side_test`. It must be made before these arrive,
so that their noise is independent of it.
"""

import numpy as np

from asyncfl.base.arrays import Floats, Ints
from asyncfl.defences.client_means import ClientMeans

GUESSES = 2  # number of directions that `guess_directions` returns
MIN_CLIENTS = 3  # minimum number of clients that a direction is the mean of
MAX_ROUNDS = 30  # maximum number of rounds in which the clients that a direction is the mean of are chosen anew


def leave_one_out(
    direction: Floats, clients: Ints, means: ClientMeans, n_parameters: int
) -> tuple[Floats, Floats, Floats]:
    """Return `direction` with each of `clients` (n,) left out in turn, in order to measure that client along it.
    `direction`: (clients,) weights >= 0 of the clients' means. Returns the weights (n, clients), which sum to 1; the
    length (n,) of each weighted sum of means; and this length without the contribution of noise, 0 if there is only
    noise. Both lengths are 0 if fewer than two clients remain."""
    weights = np.tile(direction, (len(clients), 1))
    weights[np.arange(len(clients)), clients] = 0.0
    enough = np.count_nonzero(weights, axis=1) >= MIN_CLIENTS - 1
    total = weights.sum(axis=1)
    weights /= np.where(total > 0, total, np.inf)[:, None]
    square = np.where(enough, np.einsum("ij,ij->i", weights @ means.gram, weights), 0.0)
    noise = n_parameters * np.square(weights * means.noise_std).sum(axis=1)
    return weights, np.sqrt(np.maximum(square, 0.0)), np.sqrt(np.maximum(square - noise, 0.0))


def guess_directions(means: ClientMeans) -> tuple[Floats, ...]:
    """Return `GUESSES` directions (clients,), each the mean of a group of clients with these weights; none if fewer
    than `MIN_CLIENTS` clients have a mean or most means are 0. The first group starts from all clients, the second from
    the larger side of the leading eigenvector of the cosines. Each group is then chosen anew as the clients with a
    positive sum of cosines with its members, until it no longer changes or becomes too small. Long updates count no
    more than those of median length."""
    present = means.present
    if len(present) < MIN_CLIENTS:
        return ()
    cosines, lengths = cosines_of(means)
    if not lengths.any():
        return ()
    # Iterate several vectors, so that a large negative eigenvalue does not displace the leading one.
    n = len(present)
    basis = np.cos(np.outer(np.arange(n) + 0.5, np.arange(min(n, 8))) * np.pi / n)
    for _ in range(12):
        basis = np.linalg.qr(cosines @ basis)[0]
    leading = basis @ np.linalg.eigh(basis.T @ cosines @ basis)[1][:, -1]
    larger_side = leading > 0 if 2 * (leading > 0).sum() >= n else leading < 0
    directions = []
    for members in (np.ones(n, dtype=bool), larger_side):
        for _ in range(MAX_ROUNDS):
            along = cosines @ members > 0
            if along.sum() < MIN_CLIENTS or np.array_equal(along, members):
                break
            members = along
        weights = np.zeros(len(means.rows))
        weights[present] = members / lengths
        directions.append(weights)
    return tuple(directions)


def cosines_of(means: ClientMeans) -> tuple[Floats, Floats]:
    """Return the cosines (n, n) of the n means that are present, and the length (n,) that each was divided by. Means
    shorter than the median length are divided by the median length instead of their own. If the median is 0, all
    cosines and lengths are 0. The diagonal of the cosines, which is mostly noise, is 0."""
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
