"""Labels of a batch, inferred from the gradient of the network's last layer.

LLG, Wainakh et al. 2021 ("User Label Leakage from Gradients in Federated Learning", algorithm 1, without auxiliary
data). The cross-entropy's gradient at logit k is p_k - 1 for an example of class k and p_k otherwise. With non-negative
activations (ReLU), the sum g_k of row k of the weights' gradient is therefore negative only for classes in the batch:
each of these is one label. The contribution of one label to its row, the impact, is estimated from the negative rows,

    m = (1 + 1/K) / n sum of negative g_k

with K classes and n labels. Each inferred label subtracts m from its row, and the next label is that of the lowest row.
A bias is the weight of an input that is always 1, so its gradient is added to its row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.layout import Layout


def leaked_labels(gradient: NDArray[np.floating], layout: Layout, count: int) -> NDArray[np.int64]:
    """Infer the labels (count,), ascending, of `count` images from the gradient (n_parameters,) of their mean loss.

    A positive factor on the gradient changes nothing. Raises ValueError if the gradient has another length, the last
    layer of `layout` has other parameters than a weight and a bias, or count < 1.
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


def share_right(inferred: NDArray[np.int64], true: NDArray[np.int64]) -> float:
    """Compute the share of the true labels (n,) among the inferred labels (n,), counted with multiplicity, 0..1."""
    classes = int(max(inferred.max(initial=0), true.max(initial=0))) + 1
    both = np.minimum(np.bincount(inferred, minlength=classes), np.bincount(true, minlength=classes))
    return float(both.sum() / len(true))


def share_right_by_chance(true: NDArray[np.int64], classes: int) -> float:
    """Compute the expected `share_right` of uniformly drawn labels: sum over k of E min(Binomial(n, 1/K), n_k)/n."""
    from scipy.stats import binom

    n = len(true)
    counts = np.bincount(true, minlength=classes)
    # E min(X, c) is the sum of P(X > j) over j < c.
    return float(sum(binom.sf(np.arange(count), n, 1 / classes).sum() for count in counts) / n)
