"""How many of a table's verdicts may be wrong: Benjamini and Hochberg's q-values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from asyncfl.experiments.evidence.samples import Floats


def q_values(p: ArrayLike) -> Floats:
    """(n,) of p-values: the share of false ones to expect among all that are at least as small. NaN stays NaN."""
    p = np.asarray(p, dtype=np.float64)
    q = np.full_like(p, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    ranked = p[order] * len(order) / np.arange(1, len(order) + 1)
    q[order] = np.minimum(1.0, np.minimum.accumulate(ranked[::-1])[::-1])
    return q
