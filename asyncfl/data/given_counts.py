"""A partition whose class counts are listed: somebody else's federation, client by client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.errors import DataError, Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.data.partition import Partition, Shares
from asyncfl.data.sample_source import Array, Ints, Rng

Count = Annotated[int, Field(ge=0)]


class GivenClassCounts(Partition):
    """Each client holds the listed number of samples of each class, drawn at random: the partition of a published run.

    Source: ours.
    """

    by_class: ClassVar[bool] = True
    oversampling: ClassVar[int] = 3  # so that there are enough samples of the classes that are listed most often
    alongside: ClassVar[Mapping[str, Any]] = {
        "data.clients": 2,
        "data.samples_per_client": 50,
        "protocol": {"kind": "sync", "rounds": 20},
    }
    kind: Literal["class_counts"] = "class_counts"
    counts: Annotated[tuple[tuple[Count, ...], ...], MeasuredIn("samples")] = Field(
        min_length=1, examples=[[[18, 16, 14, 12, 10, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 2, 4, 6, 8, 10]]]
    )
    """A row per client, a number per class: (clients, classes). They sum to `clients` x `samples_per_client`."""

    def faults(self, clients: int, samples_per_client: int) -> Iterator[Fault]:
        if len(self.counts) != clients:
            yield Fault("counts", f"must have a row for each of {clients} clients, got {len(self.counts)}")
        elif len(widths := set(map(len, self.counts))) > 1:
            yield Fault("counts", f"must have rows of equal length, got {min(widths)} to {max(widths)} classes")
        elif not all(map(sum, self.counts)):
            client = next(client for client, row in enumerate(self.counts) if not sum(row))
            yield Fault("counts", f"must give each client a sample, got none for client {client}")
        elif (total := sum(map(sum, self.counts))) != clients * samples_per_client:
            allowed = f"must sum to {clients * samples_per_client} (clients x samples_per_client)"
            yield Fault("counts", f"{allowed}, got {total}")

    def sizes(self, clients: int, samples_per_client: int, rng: Rng) -> Ints:
        return np.array([sum(row) for row in self.counts])

    def assign(self, labels: Array, clients: int, samples_per_client: int, rng: Rng) -> Shares:
        shuffled, wanted = rng.permutation(len(labels)), np.array(self.counts)
        names, stock = np.unique(labels, return_counts=True)
        if len(names) != wanted.shape[1]:
            message = f"must have a number for each of {len(names)} classes, got {wanted.shape[1]}"
            raise DataError([Fault("data.partition.counts", message)])
        if (missing := wanted.sum(0) - stock).max() > 0:
            worst = int(missing.argmax())
            exist = f"{stock[worst]} samples (class {names[worst]})"
            message = f"must take at most the {exist} that exist, got {wanted[:, worst].sum()}"
            raise DataError([Fault("data.partition.counts", message)])
        parts = [
            np.split(shuffled[labels[shuffled] == name], np.cumsum(of_clients))[:-1]
            for name, of_clients in zip(names, wanted.T, strict=True)
        ]
        return [np.concatenate(own) for own in zip(*parts, strict=True)]
