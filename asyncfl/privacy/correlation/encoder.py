"""The encoder C of a factorisation, as its non-zero entries: what each release is a noisy sum of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asyncfl.base.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class Encoder:
    """A matrix C (n_rows, n_versions) of entries >= 0.

    Who holds versions 1..v learns at most the rows of C g + z that are known at v, where g are the steps in units of
    their noise, and z independent standard normal noise: a row's noise hides all that it says.
    """

    row: Ints
    """(n_entries,) row of each non-zero entry, 0..n_rows-1."""
    version: Ints
    """(n_entries,) version 1.. of its column, ascending."""
    value: Floats
    """(n_entries,) the entry, > 0."""
    known: Ints
    """(n_rows,) version from which each row is known."""

    def column(self, version: int) -> slice:
        """Return where the entries of a version's column are."""
        return slice(*np.searchsorted(self.version, [version, version + 1]).tolist())

    def shifts(self, steps: Floats) -> Floats:
        """Return (n_rows,) the entries of C `steps`, of (n_versions,) numbers >= 0."""
        moved = np.zeros(len(self.known))
        np.add.at(moved, self.row, self.value * steps[self.version - 1])
        return moved

    def sensitivity(self, steps: Floats) -> float:
        """Return how far one client moves C g that moves the steps by at most (n_versions,) `steps` >= 0, in any
        direction each: |C steps|, since no entry of C is negative, so that equal directions are the worst."""
        return float(np.linalg.norm(self.shifts(steps)))

    @property
    def dense(self) -> Floats:
        """(n_rows, n_versions) the matrix."""
        found = np.zeros((len(self.known), int(self.version.max(initial=0))))
        found[self.row, self.version - 1] = self.value
        return found
