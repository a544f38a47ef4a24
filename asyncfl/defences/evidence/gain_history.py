"""Gains of each client's updates along one guessed direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GainHistory:
    """Gains of each client's last updates along a direction, the newest last. Arrays are (clients, kept).

    Let m be the noise-free length of the direction when an update arrived, and a the projection of the update on it.
    The update counts with weight m, so that gains while the common step is long count for more.
    """

    gained: Floats
    """Gain a m, on average m^2 for clients that go along like the direction itself; 0 if there is no update."""
    expected: Floats
    """Expected gain m^2."""
    variance: Floats
    """Variance of `gained` due to the noise that the client added."""
    counts: NDArray[np.int64]
    """(clients,) number of updates so far, including those no longer kept."""

    def add(
        self,
        clients: NDArray[np.int64] | int,
        gained: Floats | float,
        expected: Floats | float,
        variance: Floats | float,
    ) -> GainHistory:
        """Return the history with n more updates, in their order.

        `clients`: (n,) senders; a client may have sent several. The other arguments are (n,), the entries of the fields
        of the same name. Scalars stand for a single update.
        """
        senders, rows = np.atleast_1d(clients), np.broadcast_arrays(*np.atleast_1d(gained, expected, variance))
        counts = self.counts.copy()
        np.add.at(counts, senders, 1)
        kept = (self.gained, self.expected, self.variance)
        changed = [_append(one, senders, new) for one, new in zip(kept, rows, strict=True)]
        return GainHistory(changed[0], changed[1], changed[2], counts)

    def forget(self, client: int) -> GainHistory:
        """Return the history with all entries of `client` set to 0."""
        left = np.arange(len(self.counts)) != client
        rows = left[:, None]
        return GainHistory(self.gained * rows, self.expected * rows, self.variance * rows, self.counts * left)

    def last(self, updates: int) -> GainHistory:
        """Return the history of only the last `updates` updates of each client; `counts` are at most `updates`."""
        return GainHistory(
            self.gained[:, -updates:],
            self.expected[:, -updates:],
            self.variance[:, -updates:],
            np.minimum(self.counts, updates),
        )


def empty_history(clients: int, kept: int) -> GainHistory:
    """Return a history without updates. `kept`: number of updates of each client that are stored."""
    zeros = np.zeros((clients, kept))
    return GainHistory(zeros, zeros, zeros, np.zeros(clients, dtype=np.int64))


def _append(array: Floats, clients: NDArray[np.int64], values: Floats) -> Floats:
    """Return a copy of `array` (clients, kept) in which `values` (n,) follow as the newest entries of `clients` (n,),
    and their oldest are dropped."""
    changed = array.copy()
    for client, value in zip(clients.tolist(), values.tolist(), strict=True):
        changed[client, :-1] = changed[client, 1:]
        changed[client, -1] = value
    return changed
