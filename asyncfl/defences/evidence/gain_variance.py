"""How much a client varies by itself: the variance of what it gains, told from its own updates and from the others'.

With x_k what its k-th update goes along, as a multiple of the usual, and m_k^2 what was expected of it,

    s^2 = sum_k m_k^4 (x_k - x)^2 / sum_k m_k^4 * n / (n - 1)

has n - 1 degrees of freedom v, too few to be trusted alone. Of Gaussian noise s^2 is the variance times chi^2_v / v,
whose median is about (1 - 2 / (9 v))^3 (Wilson and Hilferty 1931); the median over all clients of s^2 over that is a
variance p that fewer than half of them can neither raise above that of the most variable honest client nor lower below
that of the least. Each one's own is drawn to it as by `PRIOR_UPDATES` further updates (an inverse-gamma prior),

    (v s^2 + PRIOR_UPDATES p) / (v + PRIOR_UPDATES),

so that who differs from update to update is granted more, but never above `MAX_VARIANCE_RATIO` times what is
usual, else attackers that vary on purpose could never be told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.evidence.gain_history import Floats, GainHistory

PRIOR_UPDATES = 4.0
"""Updates that the others' variance counts for beside a client's own."""
MAX_VARIANCE_RATIO = 4.0
"""Times the usual variance that a client may have of its own."""


@dataclass(frozen=True)
class GainVariance:
    """How much clients vary, in multiples of the usual step. Arrays are (clients,)."""

    own: Floats
    """Variance of each, drawn to the pooled one; the pooled one itself for whom it is not known."""
    several: NDArray[np.bool_]
    """Who has sent enough for a variance of its own."""
    pooled: float
    """p; 0 where nobody has sent two updates."""

    def noise(self, history: GainHistory, usual: float) -> Floats:
        """(clients, kept) variance of the gains: its own, within 1 to MAX_VARIANCE_RATIO times `usual`, at least
        what the client itself added."""
        own = np.clip(self.own, usual, MAX_VARIANCE_RATIO * usual)
        return np.asarray(np.maximum(history.variance, own[:, None] * history.expected**2))


def estimate_variances(history: GainHistory, share: Floats, known: NDArray[np.bool_]) -> GainVariance:
    """How much those that are `known` (clients,) vary about their `share` (clients,)."""
    number = np.count_nonzero(history.expected, axis=1)
    several = known & (number > 1)
    own = np.zeros(len(number))
    if not several.any():
        return GainVariance(own, several, 0.0)
    expected, freedom = history.expected[several], number[several] - 1.0
    off = history.gained[several] - share[several, None] * expected
    square = (off**2).sum(axis=1) / (expected**2).sum(axis=1) * (1 + 1 / freedom)
    pooled = float(np.median(square / (1 - 2 / (9 * freedom)) ** 3))
    own[:] = pooled
    own[several] = (freedom * square + PRIOR_UPDATES * pooled) / (freedom + PRIOR_UPDATES)
    return GainVariance(own, several, pooled)
