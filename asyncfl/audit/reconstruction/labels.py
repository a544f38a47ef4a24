"""Labels of a batch from the gradient of a network's last layer alone.

LLG, Wainakh et al. 2021 ("User Label Leakage from Gradients in Federated Learning", algorithm 1, without auxiliary
data). The cross-entropy's gradient at logit k is p_k - 1 for an example of class k and p_k else, so with activations
that are not negative (ReLU) the row of the weights' gradient sums up to less than 0 only for classes that are there:
each of these is one label. What one label adds to its row, the impact, is estimated from the rows below 0,

    m = (1 + 1/K) / n sum of g_k below 0

with K classes and n labels; every label found takes its m away, and the next is that of the lowest row. A bias is the
weight of an input that is always 1, and its gradient is counted with its row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.layout import Layout


def leaked_labels(gradient: NDArray[np.floating], layout: Layout, count: int) -> NDArray[np.int64]:
    """(count,) labels, ascending, that a gradient (n_parameters,) of a mean cross-entropy over `count` images shows.

    `layout`: of the network, whose last layer is its output. A positive factor on the gradient changes nothing.
    Raises ValueError where the gradient is of another length, the last layer is none of weights with at most a bias,
    or count < 1.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    if gradient.shape != (layout.n_parameters,):
        raise ValueError(f"gradient must have shape ({layout.n_parameters},), got {gradient.shape}")
    last = layout.layers[-1]
    if not last.is_plain:
        raise ValueError(f"the last layer must own a weight and at most a bias, got {dict(last.shapes)}")
    classes = last.weight_shape[0]
    rows = gradient[last.start : last.bias_start].reshape(classes, -1).sum(axis=1, dtype=np.float64)
    if last.bias_shape:
        rows = rows + gradient[last.bias_start : last.stop]
    impact = (1 + 1 / classes) / count * rows[rows < 0].sum()
    found: list[int] = []
    for label in np.argsort(rows, kind="stable")[: min(count, int((rows < 0).sum()))]:
        found.append(int(label))
        rows[label] -= impact
    while len(found) < count:
        label = int(np.argmin(rows))
        found.append(label)
        rows[label] -= impact
    return np.sort(np.array(found, np.int64))


def share_right(found: NDArray[np.int64], true: NDArray[np.int64]) -> float:
    """Share of the true labels (n,) that are among those found (n,), each counted as often as it is in both, 0..1."""
    classes = int(max(found.max(initial=0), true.max(initial=0))) + 1
    both = np.minimum(np.bincount(found, minlength=classes), np.bincount(true, minlength=classes))
    return float(both.sum() / len(true))


def share_right_by_chance(true: NDArray[np.int64], classes: int) -> float:
    """Expected `share_right` of as many labels drawn evenly from all classes: sum of E min(Binomial(n, 1/K), n_k)/n."""
    from scipy.stats import binom

    n = len(true)
    counts = np.bincount(true, minlength=classes)
    # E min(X, c) is the sum of P(X > j) over j < c.
    return float(sum(binom.sf(np.arange(count), n, 1 / classes).sum() for count in counts) / n)
