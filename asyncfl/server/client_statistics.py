"""The server's statistics of its clients, for selections that use them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class ClientStatistics:
    """Last loss, duration and version of each client. Losses are as reported by clients: neither noised nor checked."""

    def __init__(self, samples: NDArray[np.int64]) -> None:
        """`samples`: (clients,) training samples of each client; read when needed, since clients may join."""
        self.samples = samples
        self.losses = np.full(len(samples), np.nan)
        """(clients,) mean training loss of each client's last collected update; NaN before the first."""
        self.durations_s = np.full(len(samples), np.nan)
        """(clients,) seconds from dispatch to arrival of each client's last task that arrived; NaN before the first."""
        self.versions = np.zeros(len(samples), dtype=np.int64)
        """(clients,) version into which each client's last collected update was aggregated."""
        self.version = 0
        """The newest version."""

    def arrived(self, client: int, duration_s: float) -> None:
        """Record that a client's update arrived `duration_s` seconds after its dispatch."""
        self.durations_s[client] = duration_s

    def collected(self, clients: NDArray[np.int64], losses: NDArray[np.float64]) -> None:
        """Record the losses of updates collected for the next version. `clients`, `losses`: (n,); losses that are not
        finite are ignored."""
        known = np.isfinite(losses)
        self.losses[clients[known]] = losses[known]
        self.versions[clients[known]] = self.version + 1
