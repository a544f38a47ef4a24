"""L-BFGS estimate of Hessian-vector products from earlier steps and gradient changes.

With S the steps and Y the changes of the gradient over them, each (n_parameters, pairs), D the diagonal and L the
strictly lower part of S^T Y, and sigma = <y, s> / <s, s> of the last pair,

    B v = sigma v - [sigma S, Y] [[sigma S^T S, L], [L^T, -D]]^-1 [sigma S^T v, Y^T v].

B maps the last step to the gradient change that was observed over it. Source: Byrd, Nocedal, Schnabel 1994; sigma as in
the program of Zhang et al. 2022.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Floats, Vector

Pair: TypeAlias = tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]
"""A difference of models, and the corresponding difference of gradients, each (n_parameters,)."""


def hessian(observed: Sequence[Pair]) -> Callable[[Vector], Floats] | None:
    """Return the function v (n_parameters,) -> B v, B being the Hessian estimated from pairs, the oldest first; None if
    no pair has a step of finite length above 0."""
    pairs = [(s.astype(np.float64), y.astype(np.float64)) for s, y in observed]
    pairs = [(s, y) for s, y in pairs if 0 < s @ s < np.inf and np.isfinite(y @ y)]
    if not pairs:
        return None
    moved, changed = (np.stack(part) for part in zip(*pairs, strict=True))
    products, squares = moved @ changed.T, moved @ moved.T
    sigma = products[-1, -1] / squares[-1, -1]
    lower = np.tril(products, -1)
    middle = np.block([[sigma * squares, lower], [lower.T, -np.diag(np.diagonal(products))]])
    # Repeated steps make the matrix singular; then take the solution of least norm.
    inverse = np.linalg.pinv(middle)

    def product(along: Vector) -> Floats:
        v = along.astype(np.float64)
        weights = inverse @ np.concatenate([sigma * (moved @ v), changed @ v])
        k = len(moved)
        return np.asarray(sigma * v - sigma * (weights[:k] @ moved) - weights[k:] @ changed)

    return product
