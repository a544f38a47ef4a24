"""The mean of each client's last updates, with all inner products. Memory is clients x parameters in float32.

Noise of a client's updates is independent and their signal changes slowly: the mean of m updates has about the same
signal and 1/m of the noise's variance.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from asyncfl.base.arrays import Floats, Ints, Vector
from asyncfl.defences.distances import inner_products


@dataclass(frozen=True)
class ClientMeans:
    """The mean of each client's last updates; rows are clients. Nothing is modified in place."""

    rows: tuple[Vector | None, ...]  # mean (n_parameters,) of each client, None if it has sent no update
    gram: Floats  # (clients, clients) inner products; 0 where a row is missing
    counts: Ints  # (clients,) number of updates so far
    noise_std: Floats
    """(clients,) standard deviation of the noise in each parameter of the mean; 0 where a row is missing."""

    @property
    def present(self) -> Ints:
        """(k,) indices of the clients with a row, ascending."""
        return np.flatnonzero(self.counts)

    def products(self, updates: Vector) -> Floats:
        """Return the inner products (n, clients) of `updates` (n, n_parameters) with each row, 0 if missing."""
        out = np.zeros((len(updates), len(self.rows)))
        out[:, self.present] = inner_products(updates, [row for row in self.rows if row is not None])
        return out

    def forget(self, client: int) -> Self:
        """Return the means without the row of `client`; its count, noise and inner products become 0."""
        rows, gram, counts, noise = list(self.rows), self.gram.copy(), self.counts.copy(), self.noise_std.copy()
        gram[client] = gram[:, client] = noise[client] = 0.0
        rows[client], counts[client] = None, 0
        return replace(self, rows=tuple(rows), gram=gram, counts=counts, noise_std=noise)


def empty_means(clients: int) -> ClientMeans:
    zeros = np.zeros(clients)
    return ClientMeans((None,) * clients, np.zeros((clients, clients)), zeros.astype(np.int64), zeros)
