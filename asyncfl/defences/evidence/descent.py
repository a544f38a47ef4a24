"""The direction in which every class of the server's own samples descends.

Where clients' labels differ, an honest client may well go against the gradient on samples of all classes: it holds
others. But its own expected step is a mixture of the descents d_c of its classes c, with shares that are >= 0. Let r be
the point of least length in the convex hull of the descents, each scaled to length 1. Then

    <d_c, r> / |d_c| >= |r|^2    for every class c,

so a step of *any* mixture of classes goes along r (Desideri 2012, for gradients of several objectives). Who goes
against r does what no mixture of labels explains: it names classes otherwise, or turns its update. Features that differ
(other domains) are no mixture of these classes; then clients are spread too widely along r to be judged by it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.spectral.bank import squared_norms
from asyncfl.messages import Vector

MAX_STEPS = 500
"""Most steps towards the point of least length; a few dozen suffice for ten classes."""


def common_descent(gradients: Vector) -> tuple[Vector, float]:
    """The direction r / |r|, float32 (n_parameters,), and how long a usual class' descent is times |r|.

    `gradients`: (classes, n_parameters), those of length 0 do not count. Length 0 where there is no such direction.
    """
    lengths = np.sqrt(squared_norms(gradients))
    some = lengths > 0
    if not some.any():
        return np.zeros(gradients.shape[1], dtype=np.float32), 0.0
    unit = -gradients[some] / lengths[some, None].astype(np.float32)
    gram = (unit @ unit.T).astype(np.float64)
    weights = min_norm_point(gram)
    length = max(float(weights @ gram @ weights), 0.0) ** 0.5
    if length < 1e-6:
        return np.zeros(gradients.shape[1], dtype=np.float32), 0.0
    direction = np.asarray((weights / length).astype(np.float32) @ unit, dtype=np.float32)
    return direction, length * float(np.median(lengths[some]))


def min_norm_point(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) shares >= 0 that add up to 1 of the least point in the hull of n points with inner products `gram` (n, n).

    Frank-Wolfe steps that move weight from the farthest point to the nearest (Lacoste-Julien and Jaggi 2015).
    """
    weights = np.full(len(gram), 1 / len(gram))
    for _ in range(MAX_STEPS):
        along = gram @ weights
        to = int(np.argmin(along))
        away = int(np.argmax(np.where(weights > 0, along, -np.inf)))
        square = gram[to, to] + gram[away, away] - 2 * gram[to, away]
        gain = along[away] - along[to]
        if gain <= 1e-12 or square <= 0:
            break
        step = min(weights[away], gain / square)
        weights[to] += step
        weights[away] -= step
    return weights
