"""Natural partitions: each client holds the samples of one owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.errors import DataError, Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.data.partition.partition import Partition, Shares


class ByColumn(Partition):
    """Each client holds the samples of one value of a column (a writer, a region, a user), as in LEAF (Caldas et al.
    2018, arXiv:1812.01097).

    The data determine the sizes; `samples_per_client` is an upper limit. If there are more values than clients, as many
    values as clients are drawn.

    Source: Caldas et al. 2018 (LEAF).
    """

    kind: Literal["by"] = "by"
    alongside: ClassVar[Mapping[str, Any]] = {"data.dataset": "femnist"}
    column: str = Field(min_length=1, examples=["writer"])
    """Column of the data set; `label`: each client holds one class."""
    joined: bool = False
    """Whether all values are distributed, several per client, instead of drawing one value per client."""
    min_samples: Annotated[int, MeasuredIn("samples")] = Field(default=1, ge=1)
    """Values with fewer samples are not used."""

    @property
    def split_column(self) -> str:
        return self.column

    @property
    def by_class(self) -> bool:
        return self.column == "label"

    @property
    def sizes_from_data(self) -> bool:
        return True

    def assign(self, labels: NDArray[Any], clients: int, samples_per_client: int, rng: np.random.Generator) -> Shares:
        values, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
        left = np.flatnonzero(counts >= self.min_samples)
        if len(left) < clients:
            few = f" of at least {self.min_samples} samples" if self.min_samples > 1 else ""
            allowed = f"must be at most {len(left)} (values of {self.column}{few}, of {len(values)})"
            raise DataError([Fault("data.clients", f"{allowed} where the partition goes by it, got {clients}")])
        drawn = rng.permutation(left)
        order = np.argsort(numbers, kind="stable")
        starts = np.concatenate([[0], np.cumsum(counts)])
        shares: Shares = []
        for client in range(clients):
            own = drawn[client::clients] if self.joined else drawn[client : client + 1]
            held = np.concatenate([order[starts[value] : starts[value + 1]] for value in own])
            if len(held) > samples_per_client:
                held = held[np.sort(rng.permutation(len(held))[:samples_per_client])]
            shares.append(held)
        return shares
