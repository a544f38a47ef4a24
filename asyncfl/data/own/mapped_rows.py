"""Samples that stay on disk until they are indexed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.sample_source import SampleSource, Split


class MappedRows:
    """The scaled features of selected samples, read when rows are indexed: `rows[5:9]`, `rows[mask]`.

    Training and evaluation can use it as an array (n, *shape) float32: it has its length, shape, type and number of
    axes.
    """

    dtype = np.dtype(np.float32)

    def __init__(
        self, source: SampleSource, split: Split, rows: NDArray[np.int64], shape: tuple[int, ...], standardised: bool
    ) -> None:
        self._source, self._split, self._rows, self._standardised = source, split, rows, standardised
        self.shape = (len(rows), *shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, chosen: Any) -> NDArray[np.float32]:
        """Read the features of the rows `chosen`: an integer, a slice, a mask or integers."""
        rows = self._rows[chosen]
        found = self._source.scaled(self._source.images(self._split, np.atleast_1d(rows)), self._standardised)
        return found if np.ndim(rows) else found[0]
