"""The bank: the last update of each client, with all inner products.

Memory is clients x stored numbers in float32 (parameters, or the length of a sketch). Storing K new rows costs K x
clients inner products: only the changed rows of the Gram matrix are computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector

COMPARABLE = 1e18
"""L2 norm up to which inner products of updates do not overflow float32."""
CHUNK = 4096
"""Columns that are multiplied in float32 before the sum continues in float64."""


@dataclass(frozen=True)
class Bank:
    """The last update of each client with all inner products; rows are clients.

    Nothing is modified in place: a new bank shares the rows that did not change.
    """

    rows: tuple[Vector | None, ...]
    """Last update of each client (stored numbers,), None if there is none."""
    gram: NDArray[np.float64]
    """(clients, clients) inner products; 0 where a row is missing."""
    base_versions: NDArray[np.int64]
    """(clients,) model version that the update was trained from."""
    arrived: NDArray[np.int64]
    """(clients,) running number of the update, -1 if there is none."""
    projections: NDArray[np.float64]
    """(clients,) projection of the update on the root set's descent direction, NaN if it was not computed."""
    noise_std: NDArray[np.float64]
    """(clients,) standard deviation of the noise in each parameter of the row; 0 where a row is missing."""
    count: int = 0
    """Number of updates stored so far."""

    @property
    def present(self) -> NDArray[np.int64]:
        """(k,) indices of the clients with a row, ascending."""
        return np.flatnonzero(self.arrived >= 0)

    def products(self, updates: Vector) -> NDArray[np.float64]:
        """Return the inner products (n, clients) of `updates` (n, stored numbers) with each row; 0 where a row is
        missing."""
        return products_with(self.rows, updates)

    def put(
        self,
        clients: NDArray[np.int64],
        updates: Vector,
        products: NDArray[np.float64],
        base_versions: NDArray[np.int64],
        projections: NDArray[np.float64],
        noise_std: NDArray[np.float64],
    ) -> Bank:
        """Return the bank with new rows for `clients`, which must be distinct.

        `updates`: (n, stored numbers), copied. `products`: (n, clients) inner products of each with every row of the
        new bank. The other arguments are (n,).
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
        """Return the bank without the row of `client`; its inner products and noise become 0."""
        gram, arrived, noise = self.gram.copy(), self.arrived.copy(), self.noise_std.copy()
        gram[client] = gram[:, client] = noise[client] = 0.0
        arrived[client] = -1
        rows = (*self.rows[:client], None, *self.rows[client + 1 :])
        return replace(self, rows=rows, gram=gram, arrived=arrived, noise_std=noise)


def empty_bank(clients: int) -> Bank:
    """Return a bank without rows."""
    zeros = np.zeros(clients, dtype=np.int64)
    return Bank(
        (None,) * clients, np.zeros((clients, clients)), zeros, zeros - 1, np.full(clients, np.nan), np.zeros(clients)
    )


def products_with(rows: Sequence[Vector | None], updates: Vector) -> NDArray[np.float64]:
    """Return the inner products (n, m) of `updates` (n, d) with each of m `rows` (d,); 0 where a row is missing."""
    out = np.zeros((len(updates), len(rows)))
    present = [place for place, row in enumerate(rows) if row is not None]
    if present:
        out[:, present] = inner_products(updates, [row for row in rows if row is not None])
    return out


def inner_products(left: Vector, right: Vector | list[Vector]) -> NDArray[np.float64]:
    """Return the inner products (n, m) of the rows of `left` (n, d) with those of `right` (m, d), summed in float64.

    Chunks that fit the cache are multiplied in float32; the relative error is about 1e-7 of |x| |y| / sqrt(chunks).
    """
    length = left.shape[1]
    out = np.zeros((len(left), len(right)))
    if out.size == 0:
        return out
    # A matrix is multiplied in place (with itself at half the cost); separate rows are copied together first.
    rows = None if isinstance(right, np.ndarray) else np.empty((len(right), min(CHUNK, length)), dtype=left.dtype)
    for start in range(0, length, CHUNK):
        part = slice(start, min(start + CHUNK, length))
        if rows is None:
            other = np.asarray(right)[:, part]
        else:
            other = rows[:, : part.stop - start]
            for place, row in enumerate(right):
                other[place] = row[part]
        mine = other if right is left else left[:, part]
        # Squares overflow beyond `COMPARABLE`; the detector rejects such rows.
        with np.errstate(over="ignore", invalid="ignore"):
            out += mine @ other.T
    return out


def squared_norms(rows: Vector) -> NDArray[np.float64]:
    """Return the squared L2 norms (n,) of `rows` (n, d), in float64."""
    return np.array([np.einsum("i,i->", row, row, dtype=np.float64) for row in rows])
