"""Partitions: how samples are shared out over clients. Here those that ignore classes, and the interface of all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.component import Component
from asyncfl.base.errors import DataError, Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.data.sample_source import Array, Ints, Rng

Shares = list[Ints]
"""Indices of each client's samples: disjoint, at least one per client."""


class Partition(Component):
    """Base class of all partitions."""

    logged: ClassVar[tuple[str, ...]] = ("clients.samples",)
    oversampling: ClassVar[int] = 1
    """Candidate samples per sample that the partition chooses from, if the supply is unlimited."""
    by_class: ClassVar[bool] = False
    """Whether the partition needs classes, so that it does not apply to a regression."""
    sizes_from_data: ClassVar[bool] = False
    """Whether the data determine each client's size, so that `samples_per_client` is only an upper limit."""
    equal_sizes: ClassVar[bool] = False
    """Whether all clients hold `samples_per_client` samples."""

    @property
    def split_column(self) -> str:
        """Column of the data set that `assign` receives as `labels`: by default the class."""
        return "label"

    def faults(self, clients: int, samples_per_client: int) -> Iterator[Fault]:
        """Report why samples cannot be divided in this way; field names are relative to the partition."""
        yield from ()

    def sizes(self, clients: int, samples_per_client: int, rng: Rng) -> Ints | None:
        """Return the sizes (clients,) of the shares that `assign` would give with an equal generator, without labels.

        None if they depend on the labels.
        """
        return np.full(clients, samples_per_client) if self.equal_sizes else None

    @abstractmethod
    def assign(self, labels: Array, clients: int, samples_per_client: int, rng: Rng) -> Shares:
        """Choose for each client its indices into `labels`: in all clients * samples_per_client (unless
        `sizes_from_data`), none twice, at least one per client.

        labels: (n,) of the candidate samples (or another column, see `split_column`), n at least clients *
        samples_per_client. samples_per_client: size of each share, or the average size if the partition makes sizes
        unequal.
        """


class Iid(Partition):
    """Each client holds equally many samples, drawn at random from all. Source: McMahan et al. 2017, section 3."""

    equal_sizes: ClassVar[bool] = True
    kind: Literal["iid"] = "iid"

    def assign(self, labels: Array, clients: int, samples_per_client: int, rng: Rng) -> Shares:
        drawn = rng.permutation(len(labels))[: clients * samples_per_client]
        return list(drawn.reshape(clients, samples_per_client))


class Quantity(Partition):
    """Clients hold unequally many samples, drawn at random from all.

    Source: Li et al. 2020 (FedProx) for the power law.
    """

    kind: Literal["quantity"] = "quantity"
    distribution: Literal["lognormal", "power"] = "lognormal"
    """Distribution of sizes: lognormal, or a power law over the clients' ranks (ranks are assigned at random)."""
    spread: Annotated[float, MeasuredIn("1")] = Field(default=1.0, ge=0, le=10, allow_inf_nan=False)
    """Standard deviation of the logarithm of the sizes, or exponent of the power law; 0: equal sizes."""
    min_samples: Annotated[int, MeasuredIn("samples")] = Field(default=10, ge=1)
    """Smallest number of samples of a client."""

    def faults(self, clients: int, samples_per_client: int) -> Iterator[Fault]:
        yield from smallest_share_faults(self.min_samples, samples_per_client)

    def sizes(self, clients: int, samples_per_client: int, rng: Rng) -> Ints:
        if self.distribution == "lognormal":
            weights = np.exp(self.spread * rng.standard_normal(clients))
        else:
            weights = rng.permutation(np.arange(1, clients + 1) ** -self.spread)
        return self.min_samples + apportion(clients * (samples_per_client - self.min_samples), weights)

    def assign(self, labels: Array, clients: int, samples_per_client: int, rng: Rng) -> Shares:
        sizes = self.sizes(clients, samples_per_client, rng)
        return np.split(rng.permutation(len(labels))[: clients * samples_per_client], np.cumsum(sizes)[:-1])


class ByColumn(Partition):
    """Each client holds the samples of one value of a column (a writer, a region, a user), as in LEAF (Caldas et al.
    2018, arXiv:1812.01097).

    The data determine the sizes; `samples_per_client` is an upper limit. If there are more values than clients, as many
    values as clients are drawn.

    Source: Caldas et al. 2018 (LEAF).
    """

    sizes_from_data: ClassVar[bool] = True
    alongside: ClassVar[Mapping[str, Any]] = {"data.dataset": "femnist"}
    kind: Literal["by"] = "by"
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
    def by_class(self) -> bool:  # type: ignore[override]
        return self.column == "label"

    def assign(self, labels: Array, clients: int, samples_per_client: int, rng: Rng) -> Shares:
        values, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
        left = np.flatnonzero(counts >= self.min_samples)
        if len(left) < clients:
            few = f" of at least {self.min_samples} samples" if self.min_samples > 1 else ""
            allowed = f"must be at most {len(left)} (values of {self.column}{few}, of {len(values)})"
            raise DataError([Fault("data.clients", f"{allowed} where the partition goes by it, got {clients}")])
        drawn = rng.permutation(left)
        of_value = np.split(np.argsort(numbers, kind="stable"), np.cumsum(counts)[:-1])
        shares: Shares = []
        for client in range(clients):
            own = drawn[client::clients] if self.joined else drawn[client : client + 1]
            held = np.concatenate([of_value[value] for value in own])
            if len(held) > samples_per_client:
                held = held[np.sort(rng.permutation(len(held))[:samples_per_client])]
            shares.append(held)
        return shares


def smallest_share_faults(min_samples: int, samples_per_client: int) -> Iterator[Fault]:
    if min_samples > samples_per_client:
        yield Fault("min_samples", f"must be 1..samples_per_client ({samples_per_client}), got {min_samples}")


def apportion(total: int, weights: NDArray[np.float64]) -> Ints:
    """Return integers in proportion to `weights` with the sum `total` (largest remainder method, ties to the first)."""
    exact = total * (weights / weights.sum())
    whole: Ints = np.floor(exact).astype(np.int64)
    whole[np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]] += 1
    return whole
