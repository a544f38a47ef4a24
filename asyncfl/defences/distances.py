"""L2 norms, inner products and squared distances of updates of any finite size, fast and precise enough to select by.

Norms and products are computed in float32. The square of a number above 1.8e19 overflows float32, so results that are
not finite are computed again in float64.

|a - b|^2 = <a, a> + <b, b> - 2 <a, b> costs one matrix product instead of n^2 / 2 differences, but cancels. For updates
far from the origin the plain form is wrong in the third digit, and Krum then selects another update. Three measures
prevent this. Columns are processed in chunks that fit the cache, each centred on its own mean, which does not change
distances. Sums over chunks are float64. Updates that are much closer to each other than to the rest (colluders, or
honest updates beside huge ones) are computed again as a separate group, centred on its own mean. Where squares overflow
float32 (from 1.8e19 on) everything is computed in float64.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Floats, Ints, Vector

PRODUCT_CHUNK = 4096  # columns that `inner_products` multiplies in float32 before the sum continues in float64


def inner_product(left: Vector, right: Vector) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        product = float(np.dot(left, right))
        if not math.isfinite(product):
            product = float(np.dot(left.astype(np.float64), right.astype(np.float64)))
    return product


def squared_norm(vector: Vector) -> float:
    return inner_product(vector, vector)


def norms(updates: Vector) -> Floats:
    """Return the L2 norms (n,) of the rows of `updates` (n, d)."""
    return np.sqrt([squared_norm(row) for row in updates], dtype=np.float64)


def is_finite(vector: Vector) -> bool:
    """Whether all numbers are finite. A finite squared norm shows this in a fraction of the time."""
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(float(np.dot(vector, vector))) or bool(np.isfinite(vector).all())


def inner_products(left: Vector, right: Vector | list[Vector]) -> Floats:
    """Return the inner products (n, m) of the rows of `left` (n, d) with those of `right` (m, d), summed in float64.
    Chunks that fit the cache are multiplied in float32; the relative error is about 1e-7 of |x| |y| / sqrt(chunks).
    Squares of rows longer than 1e18 may overflow to infinity."""
    length = left.shape[1]
    out = np.zeros((len(left), len(right)))
    if out.size == 0:
        return out
    # A matrix is multiplied in place (with itself at half the cost); separate rows are copied together first.
    rows = (
        None if isinstance(right, np.ndarray) else np.empty((len(right), min(PRODUCT_CHUNK, length)), dtype=left.dtype)
    )
    for start in range(0, length, PRODUCT_CHUNK):
        part = slice(start, min(start + PRODUCT_CHUNK, length))
        other = np.asarray(right)[:, part] if rows is None else rows[:, : part.stop - start]
        for place, row in enumerate(right if rows is not None else ()):
            other[place] = row[part]
        mine = other if right is left else left[:, part]
        with np.errstate(over="ignore", invalid="ignore"):
            out += mine @ other.T
    return out


DISTANCE_CHUNK = 8192  # columns per matrix product: 50 rows of a chunk take 1.6 MB
NEAR = 0.05  # squared distances below this share of the summed squared norms have lost digits to cancellation


def squared_distances(updates: Vector) -> Floats:
    """Return the squared L2 distances between all pairs, (n, n) float64, with a relative error of about 1e-6.
    `updates`: (n, d) finite, float32 or float64 (then all is computed in float64). The result is symmetric, >= 0,
    and 0 on the diagonal and between equal updates."""
    distances, rows = np.zeros((len(updates), len(updates))), np.arange(len(updates))
    if not _fill(distances, updates, rows):
        wide: NDArray[Any] = updates.astype(np.float64)
        _fill(distances, wide, rows)
    return distances


def _fill(distances: Floats, updates: Vector, rows: Ints) -> bool:
    """Write the squared distances between the updates with indices `rows` into `distances` (n, n), in place, recursing
    into groups of near rows. Returns False, with nothing written, if squares overflow the updates' type."""
    with np.errstate(over="ignore", invalid="ignore"):
        products = _centred_products(updates if len(rows) == len(updates) else updates[rows])
    squares = np.diagonal(products)
    if not np.isfinite(squares).all():
        return False
    sums = squares[:, None] + squares[None, :]
    found = np.maximum(sums - 2 * products, 0)
    np.fill_diagonal(found, 0)
    distances[np.ix_(rows, rows)] = found
    near = found < NEAR * sums
    np.fill_diagonal(near, False)
    if near.any():
        # The label of a group of connected rows is its first row.
        linked, labels, before = near | np.eye(len(rows), dtype=bool), np.arange(len(rows)), rows[:0]
        while not np.array_equal(labels, before):
            before, labels = labels, np.where(linked, labels, len(rows)).min(axis=1)
        for group in (np.flatnonzero(labels == label) for label in np.unique(labels)):
            # A group of all rows cannot be centred any better.
            if 1 < len(group) < len(rows):
                _fill(distances, updates, rows[group])
    return True


def _centred_products(updates: Vector) -> Floats:
    """Return the inner products (n, n) of the updates minus their mean, for smaller rounding errors of distances."""
    n, d = updates.shape
    products = np.zeros((n, n))
    buffer = np.empty((n, min(DISTANCE_CHUNK, d)), dtype=updates.dtype)
    for start in range(0, d, DISTANCE_CHUNK):
        columns = updates[:, start : start + DISTANCE_CHUNK]
        centred = np.subtract(columns, columns.mean(axis=0), out=buffer[:, : columns.shape[1]])
        products += centred @ centred.T
    return products
