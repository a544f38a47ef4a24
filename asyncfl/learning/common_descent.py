"""The common descent: a direction along which every mixture of classes moves forward.

If clients' labels differ, an honest client may move against the gradient on samples of all classes, because it holds
other classes. But its expected step is a mixture of the descents d_c of its classes c, with shares >= 0. Let r be the
point of least norm in the convex hull of the descents, each scaled to length 1. Then

    <d_c, r> / |d_c| >= |r|^2    for every class c,

so a step for *any* mixture of classes has a positive product with r (Desideri 2012, for several objectives). An update
that goes against r is not explained by any mixture of labels: the labels are wrong, or the update is reversed. Features
that differ (other domains) are no mixture of these classes; then clients spread too widely along r to be judged by it.
"""

from __future__ import annotations

import numpy as np

from asyncfl.base.arrays import Floats, Vector


def unit_descents(gradients: Vector) -> tuple[Vector, Floats]:
    """Return the descents scaled to length 1, float32 (k, n_parameters), and the lengths (k,) of their gradients.
    `gradients`: (classes, n_parameters), gradient of the loss on the samples of each class; those of length 0 are
    left out."""
    lengths = np.sqrt([np.einsum("i,i->", row, row, dtype=np.float64) for row in gradients])
    some = lengths > 0
    unit = np.asarray(-gradients[some] / lengths[some, None].astype(np.float32), dtype=np.float32)
    return unit, lengths[some]


def common_descent(gradients: Vector) -> tuple[Vector, float]:
    """Return the direction r / |r|, float32 (n_parameters,), and |r| times the median length of the gradients.
    `gradients`: see `unit_descents`. Both results are 0 if no direction descends for all classes."""
    none = np.zeros(gradients.shape[1], dtype=np.float32)
    unit, lengths = unit_descents(gradients)
    if not len(unit):
        return none, 0.0
    gram = (unit @ unit.T).astype(np.float64)
    weights = min_norm_point(gram)
    length = max(float(weights @ gram @ weights), 0.0) ** 0.5
    if length < 1e-6:
        return none, 0.0
    direction = np.asarray((weights / length).astype(np.float32) @ unit, dtype=np.float32)
    return direction, length * float(np.median(lengths))


def min_norm_point(gram: Floats) -> Floats:
    """Return the convex weights (n,) of the least-norm point in the hull of n points with inner products `gram` (n, n).

    Scaled to sum 1, they are the w >= 0 that minimise |sum w_i x_i|^2 + (sum w_i - 1)^2 (Lawson and Hanson 1974)."""
    from scipy.optimize import nnls

    values, vectors = np.linalg.eigh(gram)
    points = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    weights = nnls(np.vstack([points, np.ones(len(gram))]), np.eye(len(gram) + 1)[-1])[0]
    return np.asarray(weights / weights.sum())
