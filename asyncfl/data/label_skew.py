"""Partitions with label skew: clients hold different mixtures of classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.errors import DataError, Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.data.partition import Partition, Quantity, Shares, apportion, smallest_share_faults
from asyncfl.data.sample_source import Array, Ints, Rng

_TRIES = 1000


class Shards(Partition):
    """Samples are sorted by label, cut into shards and distributed (McMahan et al. 2017, arXiv:1602.05629).

    Source: McMahan et al. 2017, section 3.
    """

    by_class: ClassVar[bool] = True
    equal_sizes: ClassVar[bool] = True
    kind: Literal["shards"] = "shards"
    shards_per_client: Annotated[int, MeasuredIn("shards")] = Field(default=2, ge=1)
    """Number of shards per client, which is about the number of its classes."""

    def faults(self, clients: int, samples_per_client: int) -> Iterator[Fault]:
        if samples_per_client % self.shards_per_client:
            allowed = f"must divide samples_per_client ({samples_per_client})"
            yield Fault("shards_per_client", f"{allowed}, got {self.shards_per_client}")

    def assign(self, labels: Array, clients: int, samples_per_client: int, rng: Rng) -> Shares:
        chosen = rng.permutation(len(labels))[: clients * samples_per_client]
        in_order = chosen[np.argsort(labels[chosen], kind="stable")]
        shards = in_order.reshape(clients * self.shards_per_client, -1)
        return list(rng.permutation(shards).reshape(clients, samples_per_client))


class Pathological(Partition):
    """Each client holds samples of exactly `classes_per_client` classes, equally many of each, in shares of equal size.

    Classes are assigned so that each is held by nearly equally many clients. `shards` cuts the sorted data instead, so
    that a shard may contain the border of two classes.

    Source: McMahan et al. 2017, section 3, made exact.
    """

    by_class: ClassVar[bool] = True
    equal_sizes: ClassVar[bool] = True
    oversampling: ClassVar[int] = 3  # so that there are enough samples of the classes that more clients hold
    kind: Literal["pathological"] = "pathological"
    classes_per_client: Annotated[int, MeasuredIn("classes")] = Field(default=2, ge=1)
    """Number of classes that each client holds."""

    def faults(self, clients: int, samples_per_client: int) -> Iterator[Fault]:
        if self.classes_per_client > samples_per_client:
            allowed = f"must be 1..samples_per_client ({samples_per_client})"
            yield Fault("classes_per_client", f"{allowed}, got {self.classes_per_client}")

    def assign(self, labels: Array, clients: int, samples_per_client: int, rng: Rng) -> Shares:
        field = "data.partition.classes_per_client"
        shuffled = rng.permutation(len(labels))
        names = np.unique(labels)
        if self.classes_per_client > len(names):
            allowed = f"must be 1..{len(names)} (classes that occur)"
            raise DataError([Fault(field, f"{allowed}, got {self.classes_per_client}")])
        of_class = _by_class(shuffled, labels)
        wanted = self._wanted(len(names), clients, samples_per_client, rng)
        stock = np.array([len(samples) for samples in of_class])
        if (short := wanted.sum(0) - stock).max() > 0:
            worst = int(short.argmax())
            got = f"{int(wanted[:, worst].sum())} samples of class {names[worst]} are needed and {stock[worst]} exist"
            raise DataError([Fault(field, f"cannot be kept: {got}; lower data.samples_per_client or data.clients")])
        return _cut(of_class, wanted)

    def _wanted(self, classes: int, clients: int, size: int, rng: Rng) -> Ints:
        """Choose each client's classes, those with the fewest holders so far, ties at random; return the samples of
        each class (clients, classes)."""
        holders = np.zeros(classes, np.int64)
        wanted = np.zeros((clients, classes), np.int64)
        for client in range(clients):
            lots = rng.permutation(classes)
            own = lots[np.argsort(holders[lots], kind="stable")[: self.classes_per_client]]
            holders[own] += 1
            wanted[client, own] = apportion(size, np.ones(len(own)))
        return wanted


class Dirichlet(Partition):
    """Class mixtures drawn from Dirichlet(alpha): the smaller alpha, the fewer classes a client holds.

    With `equal` sizes each client draws its mixture of classes and then its samples from it (Hsu et al. 2019,
    arXiv:1909.06335); when a class is used up, the rest of the mixture replaces it. With `free` sizes each class draws
    its distribution over clients (Li et al., ICDE 2022, arXiv:2102.02079), so that sizes are skewed as well.

    Source: Hsu et al. 2019, section 3 (equal); Li et al. 2022 (free).
    """

    by_class: ClassVar[bool] = True
    oversampling: ClassVar[int] = 3  # so that the mixtures, not the number of samples, decide a client's classes
    kind: Literal["dirichlet"] = "dirichlet"
    alpha: Annotated[float, MeasuredIn("1")] = Field(default=0.5, gt=0, le=1e6)
    """Concentration: .1 leaves a client one to three classes, 100 is almost IID."""
    share_sizes: Literal["equal", "free"] = "equal"
    """Whether all clients hold equally many samples (`equal`) or not (`free`)."""
    min_samples: Annotated[int, MeasuredIn("samples")] = Field(default=10, ge=1)
    """Smallest number of samples of a client if sizes are free; the partition is redrawn until this holds."""

    @property
    def equal_sizes(self) -> bool:  # type: ignore[override]
        return self.share_sizes == "equal"

    def faults(self, clients: int, samples_per_client: int) -> Iterator[Fault]:
        if self.share_sizes == "free":
            yield from smallest_share_faults(self.min_samples, samples_per_client)

    def assign(self, labels: Array, clients: int, samples_per_client: int, rng: Rng) -> Shares:
        shuffled = rng.permutation(len(labels))
        if self.share_sizes == "equal":
            return _draw_mixtures(shuffled, labels, np.full(clients, samples_per_client), self.alpha, rng)
        of_class = _by_class(shuffled[: clients * samples_per_client], labels)
        for _ in range(_TRIES):
            fractions = rng.dirichlet(np.full(clients, self.alpha), len(of_class))
            counts = np.array([rng.multinomial(len(s), p) for s, p in zip(of_class, fractions, strict=True)])
            if counts.sum(0).min() >= self.min_samples:
                return _cut(of_class, counts.T)
        failed = f"no split in {_TRIES} draws left every client {self.min_samples} samples at alpha {self.alpha:g}"
        advice = "lower min_samples or clients, raise alpha, or take share_sizes: equal"
        raise DataError([Fault("data.partition.min_samples", f"{failed}; {advice}")])


class InnerDirichlet(Quantity):
    """Sizes are drawn first, as in `quantity`; then each client draws its mixture of classes from Dirichlet(alpha), and
    its samples from the mixture, so that sizes and labels are independent (Acar et al., FedDyn, ICLR 2021,
    arXiv:2111.04263; FedLab and Flower Datasets call it inner Dirichlet).

    `dirichlet` with free sizes draws each class's distribution over clients instead, so that size and mixture depend on
    each other.

    Source: ours; the name is that of Acar et al. 2021.
    """

    by_class: ClassVar[bool] = True
    oversampling: ClassVar[int] = 3  # as for dirichlet
    kind: Literal["inner_dirichlet"] = "inner_dirichlet"  # type: ignore[assignment]
    alpha: Annotated[float, MeasuredIn("1")] = Field(default=0.5, gt=0, le=1e6)
    """Concentration of each client's mixture: .1 leaves one to three classes, 100 is almost the mixture of all."""

    def assign(self, labels: Array, clients: int, samples_per_client: int, rng: Rng) -> Shares:
        sizes = self.sizes(clients, samples_per_client, rng)
        return _draw_mixtures(rng.permutation(len(labels)), labels, sizes, self.alpha, rng)


def _draw_mixtures(shuffled: Ints, labels: Array, sizes: Ints, alpha: float, rng: Rng) -> Shares:
    """Return shares of the given `sizes` (clients,), each with a mixture of classes drawn from Dirichlet(alpha).

    shuffled: samples to take, in this order. When a class is used up, the rest of the mixture replaces it.
    """
    of_class = _by_class(shuffled, labels)
    left = np.array([len(samples) for samples in of_class])
    wanted = np.zeros((len(sizes), len(of_class)), np.int64)
    for counts, size in zip(wanted, sizes.tolist(), strict=True):
        mixture = rng.dirichlet(np.full(len(of_class), alpha))
        while (missing := size - int(counts.sum())) > 0:
            weights = np.where(left > 0, mixture, 0.0)
            if weights.sum() < 1e-9:  # the classes of the mixture are used up: take any others
                weights = left.astype(np.float64)
            taken = np.minimum(rng.multinomial(missing, weights / weights.sum()), left)
            counts += taken
            left -= taken
    return _cut(of_class, wanted)


def _by_class(samples: Ints, labels: Array) -> Shares:
    """Group samples by class, keeping their order."""
    theirs = labels[samples]
    return [samples[theirs == label] for label in np.unique(theirs)]


def _cut(of_class: Shares, wanted: Ints) -> Shares:
    """Give each client, in turn, the next samples of each class, as many as `wanted` (clients, classes)."""
    parts = [np.split(samples, np.cumsum(w))[:-1] for samples, w in zip(of_class, wanted.T, strict=True)]
    return [np.concatenate(own) for own in zip(*parts, strict=True)]
