"""L2 norms and inner products of updates of any finite size.

They are computed in float32, which is fast and precise enough. The square of a number above 1.8e19 overflows float32,
so results that are not finite are computed again in float64.
"""

import math
from collections.abc import Sequence

import numpy as np

from asyncfl.base.messages import Floats, Vector

CHUNK = 4096
"""Columns that `inner_products` multiplies in float32 before the sum continues in float64."""


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


def products_with(rows: Sequence[Vector | None], updates: Vector) -> Floats:
    """Return the inner products (n, m) of `updates` (n, d) with each of m `rows` (d,); 0 where a row is missing."""
    out = np.zeros((len(updates), len(rows)))
    if present := {place: row for place, row in enumerate(rows) if row is not None}:
        out[:, list(present)] = inner_products(updates, list(present.values()))
    return out


def inner_products(left: Vector, right: Vector | list[Vector]) -> Floats:
    """Return the inner products (n, m) of the rows of `left` (n, d) with those of `right` (m, d), summed in float64.
    Chunks that fit the cache are multiplied in float32; the relative error is about 1e-7 of |x| |y| / sqrt(chunks).
    Squares of rows longer than 1e18 may overflow to infinity."""
    length = left.shape[1]
    out = np.zeros((len(left), len(right)))
    if out.size == 0:
        return out
    # A matrix is multiplied in place (with itself at half the cost); separate rows are copied together first.
    rows = None if isinstance(right, np.ndarray) else np.empty((len(right), min(CHUNK, length)), dtype=left.dtype)
    for start in range(0, length, CHUNK):
        part = slice(start, min(start + CHUNK, length))
        other = np.asarray(right)[:, part] if rows is None else rows[:, : part.stop - start]
        for place, row in enumerate(right if rows is not None else ()):
            other[place] = row[part]
        mine = other if right is left else left[:, part]
        with np.errstate(over="ignore", invalid="ignore"):
            out += mine @ other.T
    return out
