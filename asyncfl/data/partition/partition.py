"""How samples are shared out over clients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from asyncfl.component import Component
from asyncfl.errors import Fault

Shares = list[NDArray[np.int64]]
"""Indices of each client's samples: disjoint, at least one each."""


class Partition(Component):
    """Base of all partitions.

    `oversampling` says how many labels per sample the partition wants to choose from, where there is no end of samples.
    """

    logged: ClassVar[tuple[str, ...]] = ("clients.samples",)

    oversampling: ClassVar[int] = 1

    @property
    def split_column(self) -> str:
        """Column of the data set whose values `assign` is given as `labels`: their class, unless it says otherwise."""
        return "label"

    @property
    def by_class(self) -> bool:
        """Whether it goes by classes, which a regression has none of."""
        return False

    @property
    def sizes_from_data(self) -> bool:
        """Whether sizes are those of the data, so that `samples_per_client` is only the most that a client gets."""
        return False

    def faults(self, clients: int, samples_per_client: int) -> Iterator[Fault]:
        """What makes this request impossible, fields named relative to the partition."""
        yield from ()

    def sizes(self, clients: int, samples_per_client: int, rng: np.random.Generator) -> NDArray[np.int64] | None:
        """(clients,) sizes of the shares that `assign` would give with an equal generator, found without labels.

        None where they depend on the labels.
        """
        return None

    @abstractmethod
    def assign(
        self, labels: NDArray[np.int64], clients: int, samples_per_client: int, rng: np.random.Generator
    ) -> Shares:
        """Indices into `labels` for each client: clients * samples_per_client in all (unless sizes are natural), none
        twice, at least one for each.

        labels: (n,) of the samples to choose from (or another column, see `split_column`), n at least clients *
        samples_per_client.
        samples_per_client: how many each client gets, or gets on average where the partition makes sizes
        unequal.
        """


def smallest_share_faults(min_samples: int, samples_per_client: int) -> Iterator[Fault]:
    """The fault of a smallest size above the average one, if it is."""
    if min_samples > samples_per_client:
        yield Fault("min_samples", f"must be 1..samples_per_client ({samples_per_client}), got {min_samples}")
