"""Gains of each client's updates along one direction, and the variance of these gains.

With x_k the gain of a client's k-th update as a multiple of the usual, and m_k^2 its expected gain,

    s^2 = sum_k m_k^4 (x_k - x)^2 / sum_k m_k^4 * n / (n - 1)

has v = n - 1 degrees of freedom, too few to rely on. For Gaussian noise s^2 is the variance times chi^2_v / v, whose
median is about (1 - 2 / (9 v))^3 (Wilson and Hilferty 1931). The median over all clients of s^2 divided by that is the
pooled variance p. Fewer than half of the clients can neither raise p above the honest maximum nor lower it below the
honest minimum. Each client's own variance is shrunk towards p as if by `PRIOR_UPDATES` further updates (an
inverse-gamma prior), (v s^2 + PRIOR_UPDATES p) / (v + PRIOR_UPDATES).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asyncfl.base.arrays import Bools, Floats, Ints

PRIOR_UPDATES = 4.0  # weight of the pooled variance, in updates of the client
MAX_VARIANCE_RATIO = 4.0
"""Largest variance of a single client, relative to the usual; more would shield attackers that vary on purpose."""


@dataclass(frozen=True)
class GainHistory:
    """Gains of each client's last updates along a direction, the newest last. Arrays are (clients, kept).

    Let m be the noise-free length of the direction when an update arrived, and a the projection of the update on it.
    The update counts with weight m, so that gains while the common step is long count for more.
    """

    gained: Floats
    """Gain a m, on average m^2 for clients that go along like the direction itself; 0 if there is no update."""
    expected: Floats  # expected gain m^2
    variance: Floats  # variance of `gained` due to the noise that the client added
    counts: Ints  # (clients,) number of updates so far, including those no longer kept

    def add(
        self, clients: Ints | int, gained: Floats | float, expected: Floats | float, variance: Floats | float
    ) -> GainHistory:
        """Return the history with n more updates, in their order. `clients`: (n,) senders, of which each may have sent
        several. The other arguments are (n,). Scalars stand for a single update."""
        senders, counts = np.atleast_1d(clients).tolist(), self.counts.copy()
        kept = [self.gained.copy(), self.expected.copy(), self.variance.copy()]
        for array, new in zip(kept, np.broadcast_arrays(*np.atleast_1d(gained, expected, variance)), strict=True):
            for client, value in zip(senders, new.tolist(), strict=True):
                array[client, :-1] = array[client, 1:]
                array[client, -1] = value
        np.add.at(counts, senders, 1)
        return GainHistory(kept[0], kept[1], kept[2], counts)

    def forget(self, client: int) -> GainHistory:
        """Return the history with all entries of `client` set to 0."""
        left = np.arange(len(self.counts)) != client
        gained, expected, variance = (one * left[:, None] for one in (self.gained, self.expected, self.variance))
        return GainHistory(gained, expected, variance, self.counts * left)

    def last(self, updates: int) -> GainHistory:
        """Return the history of only the last `updates` updates of each client; `counts` are at most `updates`."""
        gained, expected, variance = (one[:, -updates:] for one in (self.gained, self.expected, self.variance))
        return GainHistory(gained, expected, variance, np.minimum(self.counts, updates))


def empty_history(clients: int, kept: int) -> GainHistory:
    """Return a history without updates. `kept`: number of updates of each client that are stored."""
    zeros = np.zeros((clients, kept))
    return GainHistory(zeros, zeros, zeros, np.zeros(clients, dtype=np.int64))


@dataclass(frozen=True)
class GainVariance:
    """Variances of clients' gains as multiples of the expected gain. Arrays are (clients,)."""

    own: Floats
    """Variance of each client, shrunk towards `pooled`; `pooled` where the client has none of its own (`several`)."""
    several: Bools
    """Whether the client has a variance of its own: it is judged, and at least two of its updates are kept."""
    pooled: float  # p: median over the clients of their variances; 0 if no client has a variance of its own

    def noise(self, history: GainHistory, usual: float) -> Floats:
        """Return the variance of each entry of `history.gained`, (clients, kept): the client's own, limited to
        `usual`..`MAX_VARIANCE_RATIO` times `usual`, and at least that of the noise that the client added."""
        own = np.clip(self.own, usual, MAX_VARIANCE_RATIO * usual)
        return np.asarray(np.maximum(history.variance, own[:, None] * history.expected**2))


def estimate_variances(history: GainHistory, share: Floats, known: Bools) -> GainVariance:
    """Estimate the variance of each client's gains about its mean gain `share` (clients,), a multiple x of the expected
    gain. `known`: (clients,) whether the client has an x and enters the estimate."""
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
