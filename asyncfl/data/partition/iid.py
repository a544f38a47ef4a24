"""Equal shares, drawn at random."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.partition.partition import Partition, Shares


class Iid(Partition):
    """Each client holds equally many samples, drawn at random from all. Source: McMahan et al. 2017, section 3."""

    kind: Literal["iid"] = "iid"

    def sizes(self, clients: int, samples_per_client: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.full(clients, samples_per_client)

    def assign(
        self, labels: NDArray[np.int64], clients: int, samples_per_client: int, rng: np.random.Generator
    ) -> Shares:
        drawn = rng.permutation(len(labels))[: clients * samples_per_client]
        return list(drawn.reshape(clients, samples_per_client))
