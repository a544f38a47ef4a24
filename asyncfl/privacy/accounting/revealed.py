"""Sampled releases with so little noise that anybody sees which of them hold a record: the adversary is told.

Told which of n releases hold it, the adversary faces K of them, K binomial(n, rate), as one Gaussian release with sum
K/z^2 (`accounting.gaussian`). The hockey-stick divergence is jointly convex, so the true delta is at most the mean of
these deltas. The bound is close where noise hides nothing anyway: there losses are too large for a grid of them.
"""

from __future__ import annotations

import math

import numpy as np

from asyncfl.privacy.accounting.basic import epsilon_of_one
from asyncfl.privacy.accounting.events import MechanismEvent, Neighbours
from asyncfl.privacy.accounting.gaussian import exact_epsilon

_CELLS = 2e6
_STEP = 100.0
_CANDIDATES = 200


def is_revealing(event: MechanismEvent, step: float) -> bool:
    """Whether the losses of one sampled release need too many cells of a grid with this step, or too coarse ones."""
    loss = 0.5 / event.parameter**2 + 15 / event.parameter
    return loss / step > _CELLS or step > _STEP


def revealed_epsilon(event: MechanismEvent, delta: float, neighbours: Neighbours) -> float:
    """Upper bound on epsilon of a sampled Gaussian event; 0 where delta covers that the record is drawn at all.

    `delta` 0..1, exclusive. For each k, releases in which the record stands more than k times are charged to delta in
    full, and all others as if it stood there k times; the best k counts. Or the releases are taken one by one, each
    with its own amplification, where that is less.
    """
    from scipy.stats import binom

    drawn = binom(event.count, event.rate)
    any_ = -math.expm1(event.count * math.log1p(-event.rate))
    if any_ <= delta:
        return 0.0
    least, most = int(drawn.isf(delta)), min(int(drawn.isf(delta * 1e-9)) + 1, event.count)
    k = np.unique(np.linspace(max(least, 1), max(most, 1), _CANDIDATES).astype(np.int64))
    left = delta - drawn.sf(k)
    k, left = k[left > 0], left[left > 0]
    moved = 2.0 if neighbours == "replace" else 1.0
    share = np.minimum(left / any_, 1 - 1e-16)
    told = float(np.min(exact_epsilon(k * (moved / event.parameter) ** 2, share)))
    return min(told, event.count * epsilon_of_one(event, delta / event.count, neighbours))
