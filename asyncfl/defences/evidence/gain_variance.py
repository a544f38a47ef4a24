"""Variance of each client's gains, estimated from its own updates and those of the others.

With x_k the gain of a client's k-th update as a multiple of the usual, and m_k^2 its expected gain,

    s^2 = sum_k m_k^4 (x_k - x)^2 / sum_k m_k^4 * n / (n - 1)

has v = n - 1 degrees of freedom, too few to rely on. For Gaussian noise s^2 is the variance times chi^2_v / v, whose
median is about (1 - 2 / (9 v))^3 (Wilson and Hilferty 1931). The median over all clients of s^2 divided by that is the
pooled variance p. Fewer than half of the clients can neither raise p above the honest maximum nor lower it below the
honest minimum. Each client's own variance is shrunk towards p as if by `PRIOR_UPDATES` further updates (an
inverse-gamma prior),

    (v s^2 + PRIOR_UPDATES p) / (v + PRIOR_UPDATES).

Clients that vary more are thus granted more, but at most `MAX_VARIANCE_RATIO` times the usual; otherwise attackers that
vary on purpose could not be detected.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences.evidence.gain_history import Floats, GainHistory

PRIOR_UPDATES = 4.0
"""Weight of the pooled variance, in updates of the client."""
MAX_VARIANCE_RATIO = 4.0
"""Largest variance of a single client, relative to the usual."""


@dataclass(frozen=True)
class GainVariance:
    """Variances of clients' gains as multiples of the expected gain. Arrays are (clients,)."""

    own: Floats
    """Variance of each client, shrunk towards `pooled`; `pooled` where the client has none of its own (`several`)."""
    several: NDArray[np.bool_]
    """Whether the client has a variance of its own: it is judged, and at least two of its updates are kept."""
    pooled: float
    """p: median over the clients of their variances, see above; 0 if no client has a variance of its own."""

    def noise(self, history: GainHistory, usual: float) -> Floats:
        """Return the variance of each entry of `history.gained`, (clients, kept).

        It is the client's own variance, limited to `usual`..`MAX_VARIANCE_RATIO` times `usual`, and at least that of
        the noise that the client added. `usual`: variance of an ordinary client, such as `pooled`.
        """
        own = np.clip(self.own, usual, MAX_VARIANCE_RATIO * usual)
        return np.asarray(np.maximum(history.variance, own[:, None] * history.expected**2))


def estimate_variances(history: GainHistory, share: Floats, known: NDArray[np.bool_]) -> GainVariance:
    """Estimate the variance of each client's gains about its mean gain.

    `share`: (clients,) x, the mean gain as a multiple of the expected gain. `known`: (clients,) whether the client has
    an x and enters the estimate.
    """
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
