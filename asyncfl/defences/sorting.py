"""Medians and trimmed means of each parameter over the updates of a buffer, by sorting networks.

A sorting network (Batcher 1968, merge exchange: Knuth, The Art of Computer Programming 3, algorithm 5.2.2M) sorts n
rows by a fixed list of comparisons; each compares two whole rows at once, as a minimum and a maximum, so that the
processor works on eight parameters per instruction and nothing branches. Comparisons that cannot change what is asked
for are left out: a trimmed mean need not know the order of what it keeps, nor of what it drops. Beyond
`NETWORK_LIMIT` rows the library's sort wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from asyncfl.messages import Vector

CHUNK = 16384
"""Parameters per pass, so that a chunk of all rows stays in the cache."""
NETWORK_LIMIT = 128
"""Rows up to which the network is faster than numpy's sort."""


@lru_cache(maxsize=256)
def network(n: int, drop: int) -> tuple[tuple[int, int], ...]:
    """Comparisons (low, high) that bring the `drop` smallest of n values to the front, the `drop` largest to the end.

    What lies between is in no order. `drop` 0..n/2. Without a value between the two sides, or with one or two, this is
    a median.
    """
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
    """Mean of each parameter over the updates, less its `drop` smallest and `drop` largest values.

    `updates`: (n, d) float32 or float64, not changed; 0 <= drop < n / 2. Returns (d,) of the same type. With
    drop = (n - 1) // 2 it is the median.
    """
    n, d = updates.shape
    kept = n - 2 * drop
    if kept < 1 or drop < 0:
        raise ValueError(f"cannot drop {drop} of {n} values on each side: at most {(n - 1) // 2}")
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
    """Comparisons (low, high) that sort n values."""
    return tuple(_merge_exchange(n))


def arranged(columns: Vector, comparisons: tuple[tuple[int, int], ...], scratch: Vector) -> list[Vector]:
    """The rows of `columns` (n, width) after `comparisons`, each (width,), as views into `scratch` (n + 1, width)."""
    rows = list(scratch)
    spare = rows.pop()
    np.copyto(scratch[:-1], columns)
    for low, high in comparisons:
        np.minimum(rows[low], rows[high], out=spare)
        np.maximum(rows[low], rows[high], out=rows[high])
        rows[low], spare = spare, rows[low]
    return rows
