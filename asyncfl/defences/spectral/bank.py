"""The last update of each client, and the mean of its last updates, with all inner products.

Memory is clients x parameters in float32 for each. Only the changed rows of the Gram matrix are computed again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from asyncfl.base.messages import Floats, Ints, Vector
from asyncfl.defences.norms import inner_products, products_with


@dataclass(frozen=True)
class Bank:
    """One vector of each client with all inner products; rows are clients. Nothing is modified in place."""

    rows: tuple[Vector | None, ...]
    """Vector (n_parameters,) of each client, None if there is none."""
    gram: Floats
    """(clients, clients) inner products; 0 where a row is missing."""
    base_versions: Ints
    """(clients,) model version that the update was trained from."""
    arrived: Ints
    """(clients,) running number of the update, -1 if there is none."""
    projections: Floats
    """(clients,) projection of the update on the root set's descent direction, NaN if it was not computed."""
    noise_std: Floats
    """(clients,) standard deviation of the noise in each parameter of the row; 0 where a row is missing."""
    count: int = 0
    """Number of updates stored so far."""

    @property
    def present(self) -> Ints:
        """(k,) indices of the clients with a row, ascending."""
        return np.flatnonzero(self.arrived >= 0)

    def products(self, updates: Vector) -> Floats:
        """Return the inner products (n, clients) of `updates` (n, n_parameters) with each row."""
        return products_with(self.rows, updates)

    def put(
        self,
        clients: Ints,
        updates: Vector,
        products: Floats,
        base_versions: Ints,
        projections: Floats,
        noise_std: Floats,
    ) -> Bank:
        """Return the bank with new rows for `clients`, which must be distinct.

        `updates`: (n, n_parameters), copied. `products`: (n, clients) inner products of each with every row of the new
        bank. The other arguments are (n,).
        """
        rows = list(self.rows)
        for client, update in zip(clients, updates, strict=True):
            rows[client] = update.copy()
        gram, arrived = self.gram.copy(), self.arrived.copy()
        bases, along, noise = self.base_versions.copy(), self.projections.copy(), self.noise_std.copy()
        gram[clients] = products
        gram[:, clients] = products.T
        bases[clients] = base_versions
        arrived[clients] = self.count + np.arange(len(clients))
        along[clients] = projections
        noise[clients] = noise_std
        return Bank(tuple(rows), gram, bases, arrived, along, noise, self.count + len(clients))

    def forget(self, client: int) -> Bank:
        """Return the bank without the row of `client`."""
        gram, arrived, noise = self.gram.copy(), self.arrived.copy(), self.noise_std.copy()
        gram[client] = gram[:, client] = noise[client] = 0.0
        arrived[client] = -1
        rows = (*self.rows[:client], None, *self.rows[client + 1 :])
        return replace(self, rows=rows, gram=gram, arrived=arrived, noise_std=noise)


def empty_bank(clients: int) -> Bank:
    zeros = np.zeros(clients, dtype=np.int64)
    gram, unknown = np.zeros((clients, clients)), np.full(clients, np.nan)
    return Bank((None,) * clients, gram, zeros, zeros - 1, unknown, np.zeros(clients))


@dataclass(frozen=True)
class Pool:
    """Mean of the last updates of each client, which is judged where single updates are mostly noise.

    Noise of a client's updates is independent, and their signal changes slowly while training is on a plateau: the mean
    of m updates has the same signal and 1/m of the noise's variance.
    """

    bank: Bank
    """Bank whose rows and noise are means; base versions are rounded means."""
    counts: Ints
    """(clients,) number of updates so far."""
    bases: Floats
    """(clients,) mean base version of the updates."""

    def add(
        self,
        clients: Ints,
        updates: Vector,
        base_versions: Ints,
        projections: Floats,
        noise_std: Floats,
        most: int,
    ) -> Pool:
        """Return the pool with one more update of each of `clients`, which must be distinct; see `Bank.put`.

        The first `most` updates of a client are averaged; from then on a new update has weight 1 / `most` in the mean,
        and older ones fade.
        """
        shares = 1 / np.minimum(self.counts[clients] + 1, most)
        first = self.counts[clients] == 0
        means = updates.astype(np.float32, copy=True)
        for row in np.flatnonzero(~first).tolist():
            before = self.bank.rows[clients[row]]
            if before is not None:
                means[row] = before + np.float32(shares[row]) * (means[row] - before)
        bases, counts = self.bases.copy(), self.counts.copy()
        bases[clients] += shares * (base_versions - bases[clients])
        counts[clients] += 1
        noise = np.hypot((1 - shares) * self.bank.noise_std[clients], shares * noise_std)
        before_along = self.bank.projections[clients]
        along = np.where(first, projections, before_along + shares * (projections - before_along))
        products = self.bank.products(means)
        products[:, clients] = inner_products(means, means)
        bank = self.bank.put(clients, means, products, np.rint(bases[clients]).astype(np.int64), along, noise)
        return Pool(bank, counts, bases)

    def forget(self, client: int) -> Pool:
        """Return the pool without the row of `client`."""
        counts, bases = self.counts.copy(), self.bases.copy()
        counts[client] = 0
        bases[client] = 0.0
        return Pool(self.bank.forget(client), counts, bases)


def empty_pool(clients: int) -> Pool:
    return Pool(empty_bank(clients), np.zeros(clients, dtype=np.int64), np.zeros(clients))
