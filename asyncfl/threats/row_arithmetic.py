"""Arithmetic on uploads, block by block in float64 to limit memory.

Rows that are not finite (from clients that diverged) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Floats, Vector

BLOCK = 1 << 15
"""Columns per block: fifty rows of a block in float64 take 13 MB."""


def finite_rows(rows: Vector) -> Vector:
    """Return the rows of `rows` (n, n_parameters) that contain only finite numbers, in their order."""
    sound = np.array([bool(np.isfinite(row).all()) for row in rows], dtype=bool)
    return rows if sound.all() else rows[sound]


def mean_and_deviation(rows: Vector) -> tuple[Floats, Floats]:
    """Return mean and standard deviation (n - 1 degrees of freedom) of each column of `rows` (n >= 1, n_parameters).

    The deviation of a single row is 0.
    """
    mean = np.empty(rows.shape[1])
    deviation = np.zeros(rows.shape[1])
    for part in _blocks(rows.shape[1]):
        values = rows[:, part].astype(np.float64)
        mean[part] = values.mean(axis=0)
        if len(rows) > 1:
            deviation[part] = values.std(axis=0, ddof=1)
    return mean, deviation


def centred_products(rows: Vector, mean: Floats, direction: Floats) -> tuple[Floats, Floats]:
    """Return inner products of the centred rows e_i = rows[i] - mean: (n, n) with each other, (n,) with `direction`.

    `rows`: (n, n_parameters). `mean`, `direction`: (n_parameters,).
    """
    gram = np.zeros((len(rows), len(rows)))
    along = np.zeros(len(rows))
    for part in _blocks(rows.shape[1]):
        centred = rows[:, part] - mean[part]
        gram += centred @ centred.T
        along += centred @ direction[part]
    return gram, along


def stack_uploads(count: int, n_parameters: int, upload: Callable[[int], NDArray[np.floating]]) -> Vector:
    """Return a float32 array (count, n_parameters) of the rows `upload(0)`, `upload(1)`, ..., each (n_parameters,).

    Values too large for float32 become infinite. The server must handle that, as for any upload.
    """
    rows = np.empty((count, n_parameters), dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for row in range(count):
            rows[row] = upload(row)
    return rows


def _blocks(columns: int) -> Iterator[slice]:
    """Yield slices of `BLOCK` columns that cover `columns` columns."""
    for start in range(0, columns, BLOCK):
        yield slice(start, start + BLOCK)
