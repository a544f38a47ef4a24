"""Means of each client's last updates, which are judged where single updates are mostly noise.

Noise of a client's updates is independent, and their signal changes slowly while training is on a plateau. The mean of
m updates has the same signal and 1/m of the noise's variance, so inner products of two means are m times as clear of
the noise as those of two updates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.defences.spectral.bank import Bank, empty_bank, inner_products


@dataclass(frozen=True)
class Pool:
    """Mean of the last updates of each client; rows are clients. Nothing is modified in place."""

    bank: Bank
    """Bank whose rows and noise are means; base versions are rounded means."""
    counts: NDArray[np.int64]
    """(clients,) number of updates so far."""
    bases: NDArray[np.float64]
    """(clients,) mean base version of the updates."""

    def add(
        self,
        clients: NDArray[np.int64],
        updates: Vector,
        base_versions: NDArray[np.int64],
        projections: NDArray[np.float64],
        noise_std: NDArray[np.float64],
        most: int,
    ) -> Pool:
        """Return the pool with one more update of each of `clients`, which must be distinct; arguments as for
        `Bank.put`.

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
        along = projections.copy()
        along[~first] = (self.bank.projections[clients] + shares * (projections - self.bank.projections[clients]))[
            ~first
        ]
        products = self.bank.products(means)
        products[:, clients] = inner_products(means, means)
        bank = self.bank.put(clients, means, products, np.rint(bases[clients]).astype(np.int64), along, noise)
        return Pool(bank, counts, bases)

    def forget(self, client: int) -> Pool:
        """Return the pool without the row of `client`."""
        counts, bases = self.counts.copy(), self.bases.copy()
        counts[client] = 0
        bases[client] = 0.0
        return replace(self, bank=self.bank.forget(client), counts=counts, bases=bases)


def empty_pool(clients: int) -> Pool:
    """Return a pool without rows."""
    return Pool(empty_bank(clients), np.zeros(clients, dtype=np.int64), np.zeros(clients))
