"""Label skew by distributing pieces of the sorted data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.data.partition.partition import Partition, Shares


class Shards(Partition):
    """Samples are sorted by label, cut into shards and distributed (McMahan et al. 2017, arXiv:1602.05629).

    Source: McMahan et al. 2017, section 3.
    """

    kind: Literal["shards"] = "shards"
    shards_per_client: Annotated[int, MeasuredIn("shards")] = Field(default=2, ge=1)
    """Number of shards per client, which is about the number of its classes."""

    @property
    def by_class(self) -> bool:
        return True

    def faults(self, clients: int, samples_per_client: int) -> Iterator[Fault]:
        if samples_per_client % self.shards_per_client:
            allowed = f"must divide samples_per_client ({samples_per_client})"
            yield Fault("shards_per_client", f"{allowed}, got {self.shards_per_client}")

    def sizes(self, clients: int, samples_per_client: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.full(clients, samples_per_client)

    def assign(
        self, labels: NDArray[np.int64], clients: int, samples_per_client: int, rng: np.random.Generator
    ) -> Shares:
        chosen = rng.permutation(len(labels))[: clients * samples_per_client]
        in_order = chosen[np.argsort(labels[chosen], kind="stable")]
        shards = in_order.reshape(clients * self.shards_per_client, -1)
        return list(rng.permutation(shards).reshape(clients, samples_per_client))
