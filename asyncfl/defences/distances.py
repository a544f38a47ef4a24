"""Squared distances between all updates of a buffer, fast and precise enough to select by.

|a - b|^2 = <a, a> + <b, b> - 2 <a, b> costs one matrix product instead of n^2 / 2 differences, but cancels. For updates
far from the origin the plain form is wrong in the third digit, and Krum then selects another update. Three measures
prevent this. Columns are processed in chunks that fit the cache, each centred on its own mean, which does not change
distances. Sums over chunks are float64. Updates that are much closer to each other than to the rest (colluders, or
honest updates beside huge ones) are computed again as a separate group, centred on its own mean. Where squares overflow
float32 (from 1.8e19 on) everything is computed in float64.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Floats, Ints, Vector

CHUNK = 8192
"""Columns per matrix product: 50 rows of a chunk take 1.6 MB."""
NEAR = 0.05
"""Squared distances below this share of the summed squared norms have lost digits to cancellation."""


def squared_distances(updates: Vector) -> Floats:
    """Return the squared L2 distances between all pairs, (n, n) float64, with a relative error of about 1e-6.
    `updates`: (n, d) float32 or float64 (then everything is computed in float64). The result is symmetric, >= 0, and 0
    on the diagonal and between equal updates. Updates that are not finite are infinitely far from all others."""
    n = len(updates)
    distances = np.zeros((n, n))
    if _fill(distances, updates, np.arange(n)):
        return distances
    sound = np.flatnonzero(np.isfinite(updates).all(axis=1))
    distances[:] = np.inf
    np.fill_diagonal(distances, 0)
    if len(sound):
        wide: NDArray[Any] = updates.astype(np.float64)
        _fill(distances, wide, sound)
    return distances


def _fill(distances: Floats, updates: Vector, rows: Ints) -> bool:
    """Write the squared distances between the updates with indices `rows` into `distances` (n, n), in place, recursing
    into groups of near rows. Returns False, with nothing written, if squares overflow the updates' type."""
    with np.errstate(over="ignore", invalid="ignore"):
        products = _centred_products(updates if len(rows) == len(updates) else updates[rows])
    norms = np.diagonal(products)
    if not np.isfinite(norms).all():
        return False
    sums = norms[:, None] + norms[None, :]
    found = np.maximum(sums - 2 * products, 0)
    np.fill_diagonal(found, 0)
    distances[np.ix_(rows, rows)] = found
    near = found < NEAR * sums
    np.fill_diagonal(near, False)
    if near.any():
        from scipy.sparse.csgraph import connected_components

        number, labels = connected_components(near, directed=False)
        for group in (np.flatnonzero(labels == label) for label in range(number)):
            # A group of all rows cannot be centred any better.
            if 1 < len(group) < len(rows):
                _fill(distances, updates, rows[group])
    return True


def _centred_products(updates: Vector) -> Floats:
    """Return the inner products (n, n) of the updates minus their mean, for smaller rounding errors of distances."""
    n, d = updates.shape
    products = np.zeros((n, n))
    buffer = np.empty((n, min(CHUNK, d)), dtype=updates.dtype)
    for start in range(0, d, CHUNK):
        columns = updates[:, start : start + CHUNK]
        centred = np.subtract(columns, columns.mean(axis=0), out=buffer[:, : columns.shape[1]])
        products += centred @ centred.T
    return products
