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


def add_buffer(
    means: ClientMeans, clients: Ints, updates: Vector, against: Floats, own: Floats, noise_std: Floats, most: int
) -> ClientMeans:
    """Return the means after all `updates` (n, n_parameters) of a buffer, in its order. `clients`: (n,) senders; a
    client may have sent several. `against`: (n, clients) inner products of the updates with the rows of `means`; `own`:
    (n, n) with each other. `noise_std`: (n,) as the field. The first `most` updates of a client are averaged; from then
    on a new update has weight 1 / `most` in the mean, and older ones fade."""
    from scipy.linalg.blas import saxpy

    products, rows = against.copy(), list(means.rows)
    gram, counts, noise = means.gram.copy(), means.counts.copy(), means.noise_std.copy()
    for row, client in enumerate(clients.tolist()):
        share = 1 / min(int(counts[client]) + 1, most)
        before, kept, update = rows[client], 1 - share, updates[row]
        # saxpy needs only one row of additional memory.
        mean = update.copy() if before is None else saxpy(update, np.multiply(before, np.float32(kept)), a=share)
        rows[client] = np.asarray(mean)
        # The products follow from those of the two parts; no vectors are multiplied.
        square = kept**2 * gram[client, client] + 2 * kept * share * products[row, client] + share**2 * own[row, row]
        gram[client] = gram[:, client] = kept * gram[client] + share * products[row]
        gram[client, client] = square
        counts[client] += 1
        noise[client] = np.hypot(kept * noise[client], share * noise_std[row])
        products[:, client] = kept * products[:, client] + share * own[:, row]
    return ClientMeans(tuple(rows), gram, counts, noise)
