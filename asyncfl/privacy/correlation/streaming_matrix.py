"""Lower-triangular matrices that multiply a stream of vectors, one vector at a time, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Floats


@dataclass(frozen=True)
class StreamingMatrix:
    """A lower-triangular matrix M, as two functions that multiply it with vectors x_1, x_2, ... as they come.

    >>> matrix, products = prefix_sums(), []
    >>> state = matrix.init(1)
    >>> for x in np.array([[3.0], [1.0], [2.0]]):
    ...     product, state = matrix.next(state, x)
    ...     products.append(float(product[0]))
    >>> products
    [3.0, 4.0, 6.0]
    >>> np.cumsum([3.0, 1.0, 2.0]).tolist()
    [3.0, 4.0, 6.0]
    """

    init: Callable[[int], Any]
    """Function (n) -> the state before the first vector, for vectors of length n."""
    next: Callable[[Any, NDArray[np.floating]], tuple[NDArray[np.floating], Any]]
    """Function (state, x_t) -> ((M x)_t, next state). It changes neither argument."""

    def dense(self, n: int) -> Floats:
        """Return the first n rows and columns, (n, n)."""
        state, rows = self.init(n), []
        for one in np.eye(n):
            row, state = self.next(state, one)
            rows.append(row)
        return np.array(rows)


def prefix_sums() -> StreamingMatrix:
    """Return the matrix of ones on and below the diagonal: its products are the sums so far."""

    def following(state: NDArray[np.floating], x: NDArray[np.floating]) -> tuple[NDArray[np.floating], Any]:
        return state + x, state + x

    return StreamingMatrix(np.zeros, following)


def inverse_of_banded(coefficients: Floats) -> StreamingMatrix:
    """Return the inverse of the lower-triangular Toeplitz matrix with these (bands,) coefficients on and below its
    diagonal, the first of them not 0.

    A product y_t = (x_t - c_1 y_(t-1) - ... - c_(b-1) y_(t-b+1)) / c_0 needs the last b - 1 products, so the state has
    one vector per band below the diagonal.
    """
    first, below = float(coefficients[0]), coefficients[1:].tolist()

    def following(
        state: tuple[NDArray[np.floating], ...], x: NDArray[np.floating]
    ) -> tuple[NDArray[np.floating], tuple[NDArray[np.floating], ...]]:
        y = x.copy()
        for coefficient, earlier in zip(below, state, strict=False):
            y -= coefficient * earlier
        y /= first
        return y, (y, *state)[: len(below)]

    return StreamingMatrix(lambda n: (), following)
