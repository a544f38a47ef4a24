"""Who holds what: how many samples of each class each client has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Holdings:
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
    def said(self) -> str:
        """Sizes, numbers of classes and skew of all clients, in words."""
        skew = self.skew
        return (
            f"{len(self.sizes)} clients with {_range(self.sizes)} samples (median {np.median(self.sizes):g}) of "
            f"{_range(self.classes_held)} of {len(self.class_names)} classes; skew (total variation from the mixture "
            f"of all, 0..1) {skew.mean():.2f} on average, {skew.max():.2f} at most"
        )

    def largest_classes(self, client: int, number: int = 3) -> str:
        """Names and shares of the classes that a client holds most of, `7 (62 %), 1 (30 %)`."""
        own = self.counts[client]
        order = np.argsort(-own, kind="stable")[:number]
        parts = [f"{self.class_names[one]} ({100 * own[one] / own.sum():.0f} %)" for one in order if own[one]]
        left = int((own > 0).sum()) - len(parts)
        return ", ".join(parts) + (f", {left} more" if left > 0 else "")


def _range(numbers: NDArray[np.int64]) -> str:
    low, high = numbers.min(), numbers.max()
    return f"{low}" if low == high else f"{low} to {high}"
