"""Who holds what: how many samples of each class each client has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asyncfl.streams import Streams

if TYPE_CHECKING:
    from asyncfl.data.data_spec import DataSpec


PARTS = 5
"""Parts of equal size that the numbers of a regression fall into, where they are counted as classes are."""


@dataclass(frozen=True)
class ClassCounts:
    """The samples of one seed as they are shared out, counted by client and class."""

    counts: NDArray[np.int64]
    """(clients, classes) samples that each client holds of each class."""
    class_names: tuple[str, ...]
    """Of each class."""
    column: str
    """What the partition goes by: `label`, or another column of the data set."""
    owners: tuple[str, ...]
    """Value of the column that the partition goes by of each client; empty: it goes by none."""
    domains: tuple[str, ...]
    """Domain of each client; empty: there is one data set."""
    provenance: str
    """One line on which samples these are."""
    kind: str = "classes"
    """What they are counted by: classes, or fifths of the numbers that a regression predicts."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(clients,) samples of each client."""
        total: NDArray[np.int64] = self.counts.sum(1)
        return total

    @property
    def classes_held(self) -> NDArray[np.int64]:
        """(clients,) classes of which each client holds a sample."""
        held: NDArray[np.int64] = (self.counts > 0).sum(1)
        return held

    @property
    def skew(self) -> NDArray[np.float64]:
        """(clients,) distance in total variation of each client's mixture of classes from that of all, 0..1.

        0: the mixture of all clients together; near 1: classes that hardly anybody else holds.
        """
        mixture = self.counts.sum(0) / self.counts.sum()
        distance: NDArray[np.float64] = 0.5 * np.abs(self.counts / self.sizes[:, None] - mixture).sum(1)
        return distance

    @property
    def summary(self) -> str:
        """Sizes, numbers of classes and skew of all clients, in words."""
        skew = self.skew
        return (
            f"{len(self.sizes)} clients with {_range(self.sizes)} samples (median {np.median(self.sizes):g}) of "
            f"{_range(self.classes_held)} of {len(self.class_names)} {self.kind}; skew (total variation from the "
            f"mixture of all, 0..1) {skew.mean():.2f} on average, {skew.max():.2f} at most"
        )

    def largest_classes(self, client: int, number: int = 3) -> str:
        """Names and shares of the classes that a client holds most of, `7 (62 %), 1 (30 %)`."""
        own = self.counts[client]
        order = np.argsort(-own, kind="stable")[:number]
        parts = [f"{self.class_names[one]} ({100 * own[one] / own.sum():.0f} %)" for one in order if own[one]]
        left = int((own > 0).sum()) - len(parts)
        return ", ".join(parts) + (f", {left} more" if left > 0 else "")


def count_classes(data: DataSpec, streams: Streams) -> ClassCounts:
    """How many samples of each class (of a regression, of each fifth of what it predicts first) each client holds, as
    `data.build` with equal streams shares them out; canaries count as what they take the place of. Raises DataError."""
    classes = data.own.class_names if data.own is not None else tuple(map(str, range(data.classes)))
    counts, values, provenance = np.zeros((data.clients, data.classes or PARTS), np.int64), [], []
    column, kind = data.partition.split_column, "classes" if data.classes else "fifths of the target"
    for source, held, owners, labels in data.assignments(streams):
        if not data.classes:
            labels, classes = in_parts(labels[:, 0])
        np.add.at(counts, (owners, labels), 1)
        provenance.append(source.provenance)
        if column != "label":
            found = source.column(column, data.train_on, held)
            values += [", ".join(map(str, np.unique(own).tolist())) for own in np.split(found, _starts(owners))]
    domains = tuple(np.repeat(data.domains, data.clients // len(data.names)).tolist())
    return ClassCounts(counts, classes, column, tuple(values), domains, "; ".join(provenance), kind)


def _starts(owners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each client's samples begin, of the second and all further clients."""
    return np.flatnonzero(np.diff(owners)) + 1


def in_parts(numbers: NDArray[np.floating]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """(n,) the fifth that each number falls into, and the names of the fifths, by their ends."""
    ends = np.quantile(numbers, np.arange(1, PARTS) / PARTS)
    said = [f"{end:.3g}" for end in ends]
    return np.searchsorted(ends, numbers), (*(f"up to {end}" for end in said), f"above {said[-1]}")


def _range(numbers: NDArray[np.int64]) -> str:
    low, high = numbers.min(), numbers.max()
    return f"{low}" if low == high else f"{low} to {high}"
