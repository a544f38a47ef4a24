"""Interface of all partitions of samples among clients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.component import Component
from asyncfl.base.errors import Fault

Shares = list[NDArray[np.int64]]
"""Indices of each client's samples: disjoint, at least one per client."""


class Partition(Component):
    """Base class of all partitions."""

    logged: ClassVar[tuple[str, ...]] = ("clients.samples",)
    oversampling: ClassVar[int] = 1
    """Candidate samples per sample that the partition chooses from, if the supply is unlimited."""

    @property
    def split_column(self) -> str:
        """Column of the data set that `assign` receives as `labels`: by default the class."""
        return "label"

    @property
    def by_class(self) -> bool:
        """Whether the partition needs classes, so that it does not apply to a regression."""
        return False

    @property
    def sizes_from_data(self) -> bool:
        """Whether the data determine each client's size, so that `samples_per_client` is only an upper limit."""
        return False

    def faults(self, clients: int, samples_per_client: int) -> Iterator[Fault]:
        """Report why samples cannot be divided in this way; field names are relative to the partition."""
        yield from ()

    def sizes(self, clients: int, samples_per_client: int, rng: np.random.Generator) -> NDArray[np.int64] | None:
        """Return the sizes (clients,) of the shares that `assign` would give with an equal generator, without labels.

        None if they depend on the labels.
        """
        return None

    @abstractmethod
    def assign(
        self, labels: NDArray[np.int64], clients: int, samples_per_client: int, rng: np.random.Generator
    ) -> Shares:
        """Choose for each client its indices into `labels`: in all clients * samples_per_client (unless
        `sizes_from_data`), none twice, at least one per client.

        labels: (n,) of the candidate samples (or another column, see `split_column`), n at least clients *
        samples_per_client. samples_per_client: size of each share, or the average size if the partition makes sizes
        unequal.
        """


def smallest_share_faults(min_samples: int, samples_per_client: int) -> Iterator[Fault]:
    """Report a smallest size above the average size."""
    if min_samples > samples_per_client:
        yield Fault("min_samples", f"must be 1..samples_per_client ({samples_per_client}), got {min_samples}")
