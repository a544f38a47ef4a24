"""What each client's updates came to along one guessed direction, update by update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GainHistory:
    """The last updates of each client along a direction, the newest last. Arrays are (clients, kept).

    With m the direction's length without noise when an update arrived, and a how far it goes along it, the update
    counts with weight m: what is gained while the common step is long is worth more.
    """

    gained: Floats
    """a m: on average m^2 for who goes along like the direction itself; 0 where there is no update."""
    expected: Floats
    """m^2."""
    variance: Floats
    """Of `gained`, by the noise that the client itself added."""
    counts: NDArray[np.int64]
    """(clients,) updates so far, also those that are not kept any more."""

    def add(
        self,
        clients: NDArray[np.int64] | int,
        gained: Floats | float,
        expected: Floats | float,
        variance: Floats | float,
    ) -> GainHistory:
        """The history with more updates, in their order; all are (n,), a client may have sent several."""
        senders, rows = np.atleast_1d(clients), np.broadcast_arrays(*np.atleast_1d(gained, expected, variance))
        counts = self.counts.copy()
        np.add.at(counts, senders, 1)
        kept = (self.gained, self.expected, self.variance)
        changed = [_shifted(one, senders, new) for one, new in zip(kept, rows, strict=True)]
        return GainHistory(changed[0], changed[1], changed[2], counts)

    def forget(self, client: int) -> GainHistory:
        """The history without `client`."""
        left = np.arange(len(self.counts)) != client
        rows = left[:, None]
        return GainHistory(self.gained * rows, self.expected * rows, self.variance * rows, self.counts * left)

    def last(self, updates: int) -> GainHistory:
        """The last `updates` of each client alone."""
        return GainHistory(
            self.gained[:, -updates:],
            self.expected[:, -updates:],
            self.variance[:, -updates:],
            np.minimum(self.counts, updates),
        )


def empty_history(clients: int, kept: int) -> GainHistory:
    """Nobody has sent anything. `kept`: updates of each client that are remembered."""
    zeros = np.zeros((clients, kept))
    return GainHistory(zeros, zeros, zeros, np.zeros(clients, dtype=np.int64))


def _shifted(array: Floats, clients: NDArray[np.int64], values: Floats) -> Floats:
    """`array` with `values` (n,) as the newest of `clients` (n,), and their oldest dropped."""
    changed = array.copy()
    for client, value in zip(clients.tolist(), values.tolist(), strict=True):
        changed[client, :-1] = changed[client, 1:]
        changed[client, -1] = value
    return changed
