"""Label skew: each client has its own mixture of classes; with or without a skew of sizes that depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.errors import DataError, Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.data.partition.partition import Partition, Shares, smallest_share_faults
from asyncfl.data.partition.quantity import Quantity

_TRIES = 1000


class Dirichlet(Partition):
    """Class mixtures drawn from Dirichlet(alpha): the smaller alpha, the fewer classes a client holds.

    With `equal` sizes each client draws its mixture of classes and then its samples from it (Hsu et al. 2019,
    arXiv:1909.06335); when a class is used up, the rest of the mixture replaces it. With `free` sizes each class draws
    its distribution over clients (Li et al., ICDE 2022, arXiv:2102.02079), so that sizes are skewed as well.

    Source: Hsu et al. 2019, section 3 (equal); Li et al. 2022 (free).
    """

    oversampling: ClassVar[int] = 3  # so that the mixtures, not the number of samples, decide a client's classes

    kind: Literal["dirichlet"] = "dirichlet"
    alpha: Annotated[float, MeasuredIn("1")] = Field(default=0.5, gt=0, le=1e6)
    """Concentration: .1 leaves a client one to three classes, 100 is almost IID."""
    share_sizes: Literal["equal", "free"] = "equal"
    """Whether all clients hold equally many samples (`equal`) or not (`free`)."""
    min_samples: Annotated[int, MeasuredIn("samples")] = Field(default=10, ge=1)
    """Smallest number of samples of a client if sizes are free; the partition is redrawn until this holds."""

    @property
    def by_class(self) -> bool:
        return True

    def faults(self, clients: int, samples_per_client: int) -> Iterator[Fault]:
        if self.share_sizes == "free":
            yield from smallest_share_faults(self.min_samples, samples_per_client)

    def sizes(self, clients: int, samples_per_client: int, rng: np.random.Generator) -> NDArray[np.int64] | None:
        return None if self.share_sizes == "free" else np.full(clients, samples_per_client)

    def assign(
        self, labels: NDArray[np.int64], clients: int, samples_per_client: int, rng: np.random.Generator
    ) -> Shares:
        shuffled = rng.permutation(len(labels))
        if self.share_sizes == "free":
            return self._free(shuffled[: clients * samples_per_client], labels, clients, rng)
        return _draw_mixtures(shuffled, labels, np.full(clients, samples_per_client), self.alpha, rng)

    def _free(
        self, chosen: NDArray[np.int64], labels: NDArray[np.int64], clients: int, rng: np.random.Generator
    ) -> Shares:
        of_class = _by_class(chosen, labels)
        for _ in range(_TRIES):
            fractions = rng.dirichlet(np.full(clients, self.alpha), len(of_class))
            counts = np.array([rng.multinomial(len(s), p) for s, p in zip(of_class, fractions, strict=True)])
            if counts.sum(0).min() >= self.min_samples:
                parts = [np.split(s, np.cumsum(c)[:-1]) for s, c in zip(of_class, counts, strict=True)]
                return [np.concatenate([part[client] for part in parts]) for client in range(clients)]
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

    oversampling: ClassVar[int] = 3  # as for dirichlet

    kind: Literal["inner_dirichlet"] = "inner_dirichlet"  # type: ignore[assignment]
    alpha: Annotated[float, MeasuredIn("1")] = Field(default=0.5, gt=0, le=1e6)
    """Concentration of each client's mixture: .1 leaves one to three classes, 100 is almost the mixture of all."""

    @property
    def by_class(self) -> bool:
        return True

    def assign(
        self, labels: NDArray[np.int64], clients: int, samples_per_client: int, rng: np.random.Generator
    ) -> Shares:
        sizes = self.sizes(clients, samples_per_client, rng)
        return _draw_mixtures(rng.permutation(len(labels)), labels, sizes, self.alpha, rng)


def _draw_mixtures(
    shuffled: NDArray[np.int64],
    labels: NDArray[np.int64],
    sizes: NDArray[np.int64],
    alpha: float,
    rng: np.random.Generator,
) -> Shares:
    """Return shares of the given `sizes` (clients,), each with a mixture of classes drawn from Dirichlet(alpha).

    shuffled: samples to take, in this order. When a class is used up, the rest of the mixture replaces it.
    """
    of_class = _by_class(shuffled, labels)
    used = np.zeros(len(of_class), np.int64)
    stock = np.array([len(samples) for samples in of_class])
    shares: Shares = []
    for size in sizes.tolist():
        mixture = rng.dirichlet(np.full(len(of_class), alpha))
        counts = np.zeros(len(of_class), np.int64)
        while (missing := size - int(counts.sum())) > 0:
            left = stock - used - counts
            wanted = np.where(left > 0, mixture, 0.0)
            if wanted.sum() < 1e-9:  # the classes of the mixture are used up: take any others
                wanted = left.astype(np.float64)
            counts += np.minimum(rng.multinomial(missing, wanted / wanted.sum()), left)
        shares.append(np.concatenate([s[u : u + c] for s, u, c in zip(of_class, used, counts, strict=True)]))
        used += counts
    return shares


def _by_class(samples: NDArray[np.int64], labels: NDArray[np.int64]) -> Shares:
    """Group samples by class, keeping their order."""
    theirs = labels[samples]
    return [samples[theirs == label] for label in np.unique(theirs)]
