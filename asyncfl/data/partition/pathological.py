"""Extreme label skew: each client holds a fixed number of classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.errors import DataError, Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.data.partition.partition import Partition, Shares
from asyncfl.data.partition.quantity import apportion


class Pathological(Partition):
    """Each client holds samples of exactly `classes_per_client` classes, equally many of each, in shares of equal size.

    Classes are assigned so that each is held by nearly equally many clients. `shards` cuts the sorted data instead, so
    that a shard may contain the border of two classes.

    Source: McMahan et al. 2017, section 3, made exact.
    """

    oversampling: ClassVar[int] = 3  # so that there are enough samples of the classes that more clients hold

    kind: Literal["pathological"] = "pathological"
    classes_per_client: Annotated[int, MeasuredIn("classes")] = Field(default=2, ge=1)
    """Number of classes that each client holds."""

    @property
    def by_class(self) -> bool:
        return True

    def faults(self, clients: int, samples_per_client: int) -> Iterator[Fault]:
        if self.classes_per_client > samples_per_client:
            allowed = f"must be 1..samples_per_client ({samples_per_client})"
            yield Fault("classes_per_client", f"{allowed}, got {self.classes_per_client}")

    def sizes(self, clients: int, samples_per_client: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.full(clients, samples_per_client)

    def assign(
        self, labels: NDArray[np.int64], clients: int, samples_per_client: int, rng: np.random.Generator
    ) -> Shares:
        shuffled = rng.permutation(len(labels))
        names = np.unique(labels)
        if self.classes_per_client > len(names):
            allowed = f"must be 1..{len(names)} (classes that occur)"
            field = "data.partition.classes_per_client"
            raise DataError([Fault(field, f"{allowed}, got {self.classes_per_client}")])
        of_class = [shuffled[labels[shuffled] == name] for name in names]
        wanted = self._wanted(len(names), clients, samples_per_client, rng)
        stock = np.array([len(samples) for samples in of_class])
        if (short := wanted.sum(0) - stock).max() > 0:
            worst = int(short.argmax())
            got = f"{int(wanted[:, worst].sum())} samples of class {names[worst]} are needed and {stock[worst]} exist"
            advice = "lower data.samples_per_client or data.clients"
            raise DataError([Fault("data.partition.classes_per_client", f"cannot be kept: {got}; {advice}")])
        ends = np.cumsum(wanted, axis=0)
        return [
            np.concatenate([s[end - n : end] for s, n, end in zip(of_class, wanted[client], ends[client], strict=True)])
            for client in range(clients)
        ]

    def _wanted(self, classes: int, clients: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Choose each client's classes, those with the fewest holders so far, ties at random; return the samples of
        each class (clients, classes)."""
        dealt = np.zeros(classes, np.int64)
        wanted = np.zeros((clients, classes), np.int64)
        for client in range(clients):
            lots = rng.permutation(classes)
            own = lots[np.argsort(dealt[lots], kind="stable")[: self.classes_per_client]]
            dealt[own] += 1
            wanted[client, own] = apportion(size, np.ones(len(own)))
        return wanted
