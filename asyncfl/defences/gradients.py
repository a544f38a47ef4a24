"""Gradients of clients, and the L-BFGS estimate of Hessian-vector products from earlier steps and gradient changes.

With S the steps and Y the changes of the gradient over them, each (n_parameters, pairs), D the diagonal and L the
strictly lower part of S^T Y, and sigma = <y, s> / <s, s> of the last pair,

    B v = sigma v - [sigma S, Y] [[sigma S^T S, L], [L^T, -D]]^-1 [sigma S^T v, Y^T v].

B maps the last step to the gradient change that was observed over it. Source: Byrd, Nocedal, Schnabel 1994; sigma as in
the program of Zhang et al. 2022.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Floats, Vector
from asyncfl.defences.buffer import Buffer, DefenceContext

T = TypeVar("T")
Pair: TypeAlias = tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]
"""A difference of models, and the corresponding difference of gradients, each (n_parameters,)."""


def gradient_scale(context: DefenceContext, buffer: Buffer, row: int) -> float:
    """Return the factor that turns the update in `row` into its client's mean gradient: -1 / (lr * steps)."""
    steps = float(context.steps[buffer.clients[row]]) * (1.0 if buffer.work is None else float(buffer.work[row]))
    return -1.0 / (context.lr * steps)


@dataclass(frozen=True)
class Gradient:
    """A client's mean gradient in one task, stored as its update, since the gradient may overflow float32."""

    delta: Vector  # (n_parameters,) the update
    scale: float  # factor that turns the update into the gradient
    version: int  # model version at which it was computed
    model: Vector  # (n_parameters,) the model of that version

    def values(self) -> Floats:
        """Return the gradient (n_parameters,)."""
        return self.delta.astype(np.float64) * self.scale


def gradient_of(context: DefenceContext, buffer: Buffer, row: int) -> Gradient:
    """Return the mean gradient of the task whose update is in `row` of the buffer."""
    # A gradient belongs to the model that the client was sent, whatever `origin` is.
    base = buffer.base(row)
    return Gradient(
        buffer.models[row] - base, gradient_scale(context, buffer, row), int(buffer.base_versions[row]), base
    )


def without(state: T, client: int, *names: str) -> T:
    """Return the dataclass `state` without `client` in the fields `names`, dictionaries by client."""
    left = {name: {who: one for who, one in getattr(state, name).items() if who != client} for name in names}
    return replace(state, **left)  # type: ignore[type-var]


def upper_quantile(share: float, values: Iterable[float]) -> float:
    """Return the least value that all but a `share` (0..1) of `values` do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil((1 - share) * len(ordered) - 1e-9) - 1)]


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
