"""What the server has heard of its clients so far, for selections that go by it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class ClientStatistics:
    """The last loss, time and version of each client. Losses are what clients say: neither noised nor checked."""

    def __init__(self, samples: NDArray[np.int64]) -> None:
        """`samples`: (clients,) training samples of each client; read when it is needed, as clients may join."""
        self.samples = samples
        self.losses = np.full(len(samples), np.nan)
        """(clients,) mean training loss of the client's last update that was collected; NaN: none was."""
        self.durations_s = np.full(len(samples), np.nan)
        """(clients,) seconds from the dispatch of the client's last task that arrived to its arrival; NaN: none has."""
        self.versions = np.zeros(len(samples), dtype=np.int64)
        """(clients,) version that the client's last update that was collected went into."""
        self.version = 0
        """The newest version."""

    def arrived(self, client: int, duration_s: float) -> None:
        """A client has answered after so long."""
        self.durations_s[client] = duration_s

    def collected(self, clients: NDArray[np.int64], losses: NDArray[np.float64]) -> None:
        """Updates go into the next version. `clients`, `losses`: (n,); a loss that is not finite tells nothing."""
        told = np.isfinite(losses)
        self.losses[clients[told]] = losses[told]
        self.versions[clients[told]] = self.version + 1
