"""Coordinate-wise medians and trimmed means by sorting networks.

A sorting network (Batcher 1968, merge exchange: Knuth, The Art of Computer Programming 3, algorithm 5.2.2M) sorts n
rows by a fixed list of comparisons. Each comparison is a minimum and a maximum of two whole rows, which the processor
vectorises without branches. Comparisons that cannot affect the result are left out: a trimmed mean needs neither the
order of the kept values nor that of the dropped ones. Beyond `NETWORK_LIMIT` rows NumPy's sort is faster.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from asyncfl.base.arrays import Vector

CHUNK = 16384  # parameters per pass, so that a chunk of all rows fits the cache
NETWORK_LIMIT = 128  # number of rows up to which the network is faster than NumPy's sort


@lru_cache(maxsize=256)
def network(n: int, drop: int) -> tuple[tuple[int, int], ...]:
    """Return comparisons (low, high) of row indices that move the `drop` (0..n/2) smallest of n values to the front and
    the `drop` largest to the end, with those in between in no particular order."""
    sides = [(i >= drop) + (i >= n - drop) for i in range(n)]
    ordered = [False] * n
    needed: list[tuple[int, int]] = []
    for low, high in reversed(list(_merge_exchange(n))):
        # Wires that end on the same side and are compared with nothing later may as well be swapped.
        if ordered[low] or ordered[high] or sides[low] != sides[high]:
            ordered[low] = ordered[high] = True
            needed.append((low, high))
    return tuple(reversed(needed))


def _merge_exchange(n: int) -> Iterator[tuple[int, int]]:
    """Yield the comparisons (low, high) of Knuth's algorithm 5.2.2M, which sort n values in ascending order."""
    p = top = 1 << n.bit_length()  # a larger power of two than is needed compares nothing more
    while p:
        q, r, d = top, 0, p
        while True:
            for i in range(n - d):
                if i & p == r:
                    yield i, i + d
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1


def middle_mean(updates: Vector, drop: int) -> Vector:
    """Return the coordinate-wise mean without the `drop` smallest and `drop` largest values, (d,) of the updates' type.
    `updates`: (n, d) float32 or float64, not modified; 0 <= drop < n / 2. With drop = (n - 1) // 2 it is the median."""
    n, d = updates.shape
    kept = n - 2 * drop
    out = np.empty(d, dtype=updates.dtype)
    if drop and n > NETWORK_LIMIT:
        np.sort(updates, axis=0)[drop : n - drop].mean(axis=0, out=out)
        return out
    scratch = np.empty((n + 1, min(CHUNK, d)), dtype=updates.dtype)
    comparisons = network(n, drop) if drop else ()
    for start in range(0, d, CHUNK):
        columns = updates[:, start : start + CHUNK]
        rows = arranged(columns, comparisons, scratch[:, : columns.shape[1]])
        total = out[start : start + CHUNK]
        np.copyto(total, rows[drop])
        for row in rows[drop + 1 : n - drop]:
            total += row
        total /= kept
    return out


@lru_cache(maxsize=64)
def full_network(n: int) -> tuple[tuple[int, int], ...]:
    """Return comparisons (low, high) of row indices that sort n values in ascending order."""
    return tuple(_merge_exchange(n))


def arranged(columns: Vector, comparisons: tuple[tuple[int, int], ...], scratch: Vector) -> list[Vector]:
    """Return the n rows (width,) of `columns` (n, width) after `comparisons`, as views into `scratch` (n + 1, width),
    which is overwritten. (low, high) puts the smaller value into row `low` and the larger into row `high`."""
    rows = list(scratch)
    spare = rows.pop()
    np.copyto(scratch[:-1], columns)
    for low, high in comparisons:
        np.minimum(rows[low], rows[high], out=spare)
        np.maximum(rows[low], rows[high], out=rows[high])
        rows[low], spare = spare, rows[low]
    return rows
