"""Samples that stay on disk until somebody asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.sample_source import SampleSource, Split


class MappedRows:
    """The scaled features of chosen samples, read when they are indexed by row: `rows[5:9]`, `rows[mask]`.

    To who trains or evaluates it is an array (n, *shape) float32: it has its length, shape, type and number of axes.
    """

    dtype = np.dtype(np.float32)

    def __init__(
        self, source: SampleSource, split: Split, rows: NDArray[np.int64], shape: tuple[int, ...], standardised: bool
    ) -> None:
        self._source, self._split, self._rows, self._standardised = source, split, rows, standardised
        self.shape = (len(rows), *shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, chosen: Any) -> NDArray[np.float32]:
        """Features of the rows `chosen`: a number, a slice, a mask or numbers."""
        rows = self._rows[chosen]
        found = self._source.scaled(self._source.images(self._split, np.atleast_1d(rows)), self._standardised)
        return found if np.ndim(rows) else found[0]
