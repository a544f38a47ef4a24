"""Partitions: how samples are shared out over clients."""

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

Shares = list[Ints]  # indices of each client's samples: disjoint, at least one per client
_TRIES = 1000


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


class Similarity(Partition):
    """A share `gamma` of the samples is dealt to clients at random, the rest is sorted by label and cut into one piece
    per client.

    With gamma 1 this is `iid`; with gamma 0 clients hold one or two classes each, the first clients the first classes.

    Source: Karimireddy et al. 2020 (SCAFFOLD), section 7; ByzFL calls it gamma similarity.
    """

    by_class: ClassVar[bool] = True
    equal_sizes: ClassVar[bool] = True
    kind: Literal["similarity"] = "similarity"
    gamma: Annotated[float, MeasuredIn("share")] = Field(default=0.5, ge=0, le=1)
    """Share of each client's samples that are drawn from all classes alike, 0..1; rounded to whole samples."""

    def assign(self, labels: Array, clients: int, samples_per_client: int, rng: Rng) -> Shares:
        chosen = rng.permutation(len(labels))[: clients * samples_per_client]
        alike, rest = np.split(chosen, [clients * round(self.gamma * samples_per_client)])
        in_order = rest[np.argsort(labels[rest], kind="stable")]
        return list(np.concatenate([alike.reshape(clients, -1), in_order.reshape(clients, -1)], axis=1))


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


def smallest_share_faults(min_samples: int, samples_per_client: int) -> Iterator[Fault]:
    if min_samples > samples_per_client:
        yield Fault("min_samples", f"must be 1..samples_per_client ({samples_per_client}), got {min_samples}")


def apportion(total: int, weights: NDArray[np.float64]) -> Ints:
    """Return integers in proportion to `weights` with the sum `total` (largest remainder method, ties to the first)."""
    exact = total * (weights / weights.sum())
    whole: Ints = np.floor(exact).astype(np.int64)
    whole[np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]] += 1
    return whole
