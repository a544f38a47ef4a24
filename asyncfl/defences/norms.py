"""L2 norms and inner products of updates of any finite size.

They are computed in float32, which is fast and precise enough. The square of a number above 1.8e19 overflows float32,
so results that are not finite are computed again in float64.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector


def inner_product(left: Vector, right: Vector) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        product = float(np.dot(left, right))
        if not math.isfinite(product):
            product = float(np.dot(left.astype(np.float64), right.astype(np.float64)))
    return product


def is_finite(vector: Vector) -> bool:
    """Return whether all numbers of a vector (d,) are finite. A finite squared norm shows this in a fraction of the
    time."""
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(float(np.dot(vector, vector))) or bool(np.isfinite(vector).all())


def squared_norm(vector: Vector) -> float:
    """Return the squared L2 norm of a vector (d,)."""
    return inner_product(vector, vector)


def norms(updates: Vector) -> NDArray[np.float64]:
    """Return the L2 norms (n,) of the rows of `updates` (n, d)."""
    return np.sqrt([squared_norm(row) for row in updates], dtype=np.float64)
