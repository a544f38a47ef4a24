"""The last updates of each client, or their means, with what the majority test compares."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from asyncfl.base.arrays import Floats, Ints, Vector
from asyncfl.defences.client_means import ClientMeans, empty_means
from asyncfl.defences.distances import inner_products


@dataclass(frozen=True)
class Bank(ClientMeans):
    """The mean of each client's last `most` updates; with `most` 1 its last update."""

    most: int  # number of a client's last updates that are averaged, >= 1
    bases: Floats  # (clients,) mean model version that the updates were trained from
    arrived: Ints  # (clients,) rank of the clients by their last update: the greatest belongs to the newest
    projections: Floats  # (clients,) mean projection on the root set's descent direction, NaN if it was not computed

    @property
    def base_versions(self) -> Ints:
        """(clients,) rounded `bases`."""
        return np.rint(self.bases).astype(np.int64)

    def add(
        self,
        clients: Ints,
        updates: Vector,
        base_versions: Ints,
        projections: Floats,
        noise_std: Floats,
        products: Floats | None = None,
    ) -> Bank:
        """Return the bank with one more update (n, n_parameters) of each of n `clients`, which must be distinct. The
        first `most` updates of a client are averaged; from then on a new update has weight 1 / `most` in the mean, and
        older ones fade. `products`: (n, clients) inner products of the new rows with every row of the new bank; None:
        they are computed. The other arguments are (n,)."""
        shares, rows = 1 / np.minimum(self.counts[clients] + 1, self.most), list(self.rows)
        for client, update, share in zip(clients, updates, shares.astype(np.float32), strict=True):
            before = rows[client]
            rows[client] = update.copy() if before is None or share == 1 else before + share * (update - before)
        if products is None:
            means = np.array([rows[client] for client in clients])
            products = self.products(means)
            products[:, clients] = inner_products(means, means)
        gram, noise, counts = self.gram.copy(), self.noise_std.copy(), self.counts.copy()
        bases, along, arrived = self.bases.copy(), self.projections.copy(), self.arrived.copy()
        gram[clients], gram[:, clients] = products, products.T
        noise[clients] = np.hypot((1 - shares) * noise[clients], shares * noise_std)
        bases[clients] += shares * (base_versions - bases[clients])
        mixed = along[clients] + shares * (projections - along[clients])
        along[clients] = np.where(shares < 1, mixed, projections)
        counts[clients] += 1
        arrived[clients] = arrived.max() + 1 + np.arange(len(clients))
        return Bank(tuple(rows), gram, counts, noise, self.most, bases, arrived, along)

    def forget(self, client: int) -> Bank:
        """Return the bank without the row of `client`."""
        bases = self.bases.copy()
        bases[client] = 0.0
        return replace(super().forget(client), bases=bases)


def empty_bank(clients: int, most: int = 1) -> Bank:
    """Return a bank without updates."""
    empty, zeros = empty_means(clients), np.zeros(clients)
    counts = empty.counts
    return Bank(empty.rows, empty.gram, counts, zeros, most, zeros, counts, np.full(clients, np.nan))
