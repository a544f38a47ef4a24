"""Number of samples of each class that each client holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import DataError
from asyncfl.base.streams import Streams
from asyncfl.data.sample_source import Ints

if TYPE_CHECKING:
    from asyncfl.data.data_spec import DataSpec


PARTS = 5  # number of equally frequent ranges by which the target of a regression is counted


@dataclass(frozen=True)
class ClassCounts:
    """The assignment of one seed's samples, counted by client and class."""

    counts: Ints  # (clients, classes) number of samples
    class_names: tuple[str, ...]
    column: str  # column that the partition splits by: `label`, or another column of the data set
    owners: tuple[str, ...]  # values of that column on each client; empty if the partition splits by label
    domains: tuple[str, ...]  # domain of each client; empty for a single data set and for mixed domains
    provenance: str
    kind: str = "classes"  # the unit of counting: classes, or fifths of the target of a regression

    @property
    def sizes(self) -> Ints:
        """(clients,) number of samples of each client."""
        return np.asarray(self.counts.sum(1))

    @property
    def classes_held(self) -> Ints:
        """(clients,) number of classes of which each client holds a sample."""
        return np.asarray((self.counts > 0).sum(1))

    @property
    def skew(self) -> NDArray[np.float64]:
        """(clients,) total variation distance between each client's class mixture and that of all clients, 0..1."""
        mixture = self.counts.sum(0) / self.counts.sum()
        return np.asarray(0.5 * np.abs(self.counts / self.sizes[:, None] - mixture).sum(1))

    @property
    def summary(self) -> str:
        """Sizes, numbers of classes and skew of all clients in one sentence."""
        skew = self.skew
        return (
            f"{len(self.sizes)} clients with {_range(self.sizes)} samples (median {np.median(self.sizes):g}) of "
            f"{_range(self.classes_held)} of {len(self.class_names)} {self.kind}; skew (total variation from the "
            f"mixture of all, 0..1) {skew.mean():.2f} on average, {skew.max():.2f} at most"
        )

    def largest_classes(self, client: int, number: int = 3) -> str:
        """Describe the classes of which a client holds most, as `7 (62 %), 1 (30 %)`."""
        own = self.counts[client]
        order = np.argsort(-own, kind="stable")[:number]
        parts = [f"{self.class_names[one]} ({100 * own[one] / own.sum():.0f} %)" for one in order if own[one]]
        left = int((own > 0).sum()) - len(parts)
        return ", ".join(parts) + (f", {left} more" if left > 0 else "")


def count_classes(data: DataSpec, streams: Streams) -> ClassCounts:
    """Count the samples of each class (of a regression: each fifth of its first target) on each client, as `data.build`
    with equal streams assigns them. Canaries count as the samples that they replace. Raises DataError."""
    if faults := list(data.faults()):
        raise DataError(fault.under("data") for fault in faults)
    classes = data.own.class_names if data.own is not None else tuple(map(str, range(data.classes)))
    counts, values, provenance = np.zeros((data.clients, data.classes or PARTS), np.int64), [], []
    column, kind = data.partition.split_column, "classes" if data.classes else "fifths of the target"
    for source, held, owners, labels in data.assignments(streams):
        if not data.classes:
            labels, classes = split_into_fifths(labels[:, 0])
        np.add.at(counts, (owners, labels), 1)
        provenance.append(source.provenance)
        if column != "label":
            by_client = np.split(source.column(column, data.train_on, held), np.flatnonzero(np.diff(owners)) + 1)
            values += [", ".join(map(str, np.unique(own).tolist())) for own in by_client]
    domains = () if data.mixed_domains else tuple(np.repeat(data.domains, data.clients // len(data.names)).tolist())
    return ClassCounts(counts, classes, column, tuple(values), domains, "; ".join(provenance), kind)


def split_into_fifths(numbers: NDArray[np.floating]) -> tuple[Ints, tuple[str, ...]]:
    """Return the fifth (n,) into which each number falls, and the names of the fifths, by their limits."""
    ends = np.quantile(numbers, np.arange(1, PARTS) / PARTS)
    limits = [f"{end:.3g}" for end in ends]
    return np.searchsorted(ends, numbers), (*(f"up to {end}" for end in limits), f"above {limits[-1]}")


def _range(numbers: Ints) -> str:
    low, high = numbers.min(), numbers.max()
    return f"{low}" if low == high else f"{low} to {high}"
