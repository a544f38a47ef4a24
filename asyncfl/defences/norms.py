"""Lengths and inner products of updates, of any finite size.

They are computed in float32, which is fast and exact enough; the square of a number above 1.8e19 overflows there, and
an attacker may well send one. What is not finite then is computed again in float64, where nothing of float32 overflows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from asyncfl.messages import Vector


def inner_product(left: Vector, right: Vector) -> float:
    """Inner product of two vectors (d,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = float(np.dot(left, right))
        if not math.isfinite(product):
            product = float(np.dot(left.astype(np.float64), right.astype(np.float64)))
    return product


def is_finite(vector: Vector) -> bool:
    """Whether all numbers of a vector (d,) are finite. A finite length says so in a fraction of the time."""
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(float(np.dot(vector, vector))) or bool(np.isfinite(vector).all())


def squared_norm(vector: Vector) -> float:
    """Squared L2 norm of a vector (d,)."""
    return inner_product(vector, vector)


def norms(updates: Vector) -> NDArray[np.float64]:
    """(n,) L2 norms of the rows of `updates` (n, d)."""
    return np.sqrt([squared_norm(row) for row in updates], dtype=np.float64)
