"""Means of each client's last updates, with their inner products, from which common directions are guessed.

Noise of a client's updates is independent and their signal changes slowly: the mean of m updates has about the same
signal and 1/m of the noise's variance. Memory is clients x parameters in float32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.defences.spectral.bank import products_with


@dataclass(frozen=True)
class ClientMeans:
    """The mean of each client's last updates; rows are clients. Nothing is modified in place."""

    rows: tuple[Vector | None, ...]
    """Mean (n_parameters,) of each client, None if it has sent no update."""
    gram: NDArray[np.float64]
    """(clients, clients) inner products; 0 where a row is missing."""
    counts: NDArray[np.int64]
    """(clients,) number of updates so far."""
    noise_std: NDArray[np.float64]
    """(clients,) standard deviation of the noise in each parameter of the mean."""

    @property
    def present(self) -> NDArray[np.int64]:
        """(k,) indices of the clients with a row, ascending."""
        return np.flatnonzero(self.counts)

    def products(self, updates: Vector) -> NDArray[np.float64]:
        """Return the inner products (n, clients) of `updates` (n, n_parameters) with each row; 0 where a row is
        missing."""
        return products_with(self.rows, updates)

    def forget(self, client: int) -> ClientMeans:
        """Return the means without the row of `client`; its count, noise and inner products become 0."""
        gram, counts, noise = self.gram.copy(), self.counts.copy(), self.noise_std.copy()
        gram[client] = gram[:, client] = noise[client] = 0.0
        counts[client] = 0
        return replace(
            self,
            rows=(*self.rows[:client], None, *self.rows[client + 1 :]),
            gram=gram,
            counts=counts,
            noise_std=noise,
        )


def empty_means(clients: int) -> ClientMeans:
    """Return means without rows."""
    zeros = np.zeros(clients)
    return ClientMeans((None,) * clients, np.zeros((clients, clients)), zeros.astype(np.int64), zeros)


def add_buffer(
    means: ClientMeans,
    clients: NDArray[np.int64],
    updates: Vector,
    against: NDArray[np.float64],
    own: NDArray[np.float64],
    noise_std: NDArray[np.float64],
    most: int,
) -> ClientMeans:
    """Return the means after all `updates` (n, n_parameters) of a buffer, in its order.

    `clients`: (n,) senders; a client may have sent several. `against`: (n, clients) inner products of the updates with
    the rows of `means`; `own`: (n, n) with each other. `noise_std`: (n,) standard deviation of the noise in each
    parameter of an update. The first `most` updates of a client are averaged; from then on a new update has weight
    1 / `most` in the mean, and older ones fade.
    """
    products, rows = against.copy(), list(means.rows)
    gram, counts, noise = means.gram.copy(), means.counts.copy(), means.noise_std.copy()
    for row, client in enumerate(clients.tolist()):
        share = 1 / min(int(counts[client]) + 1, most)
        before, kept = rows[client], 1 - share
        update = updates[row]
        rows[client] = update.copy() if before is None else _between(before, update, share)
        # The products follow from those of the two parts; no vectors are multiplied.
        square = kept**2 * gram[client, client] + 2 * kept * share * products[row, client] + share**2 * own[row, row]
        gram[client] = gram[:, client] = kept * gram[client] + share * products[row]
        gram[client, client] = square
        counts[client] += 1
        noise[client] = np.hypot(kept * noise[client], share * noise_std[row])
        products[:, client] = kept * products[:, client] + share * own[:, row]
    return ClientMeans(tuple(rows), gram, counts, noise)


def _between(before: Vector, update: Vector, share: float) -> Vector:
    """Return (1 - `share`) `before` + `share` `update`, (n_parameters,), with only one row of additional memory."""
    from scipy.linalg.blas import saxpy

    row = np.multiply(before, np.float32(1 - share))
    return np.asarray(saxpy(update, row, a=share))
