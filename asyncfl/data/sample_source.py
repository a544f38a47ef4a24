"""Interface of all data sets: numbered samples of two splits, with labels and features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Split = Literal["train", "test"]


class SampleSource(ABC):
    """Samples of one data set: a training split and a test split, each numbered from 0, drawn without replacement."""

    name: str
    """Name of the data set in a scenario."""
    title: str
    """Name of the data set in messages and captions."""
    is_original: bool
    """Whether these are all samples of the real data set: not stand-ins, not a subset."""
    columns: tuple[str, ...] = ()
    """Names of the columns besides `label`."""

    @property
    @abstractmethod
    def provenance(self) -> str:
        """Origin of the samples in one line, for captions."""

    @abstractmethod
    def size(self, split: Split) -> int:
        """Return the number of samples of a split."""

    @abstractmethod
    def labels(self, split: Split, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Return the classes (n,), or numbers to predict (n, outputs), of the samples `indices`."""

    @abstractmethod
    def images(self, split: Split, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Return the features (n, ...) of the samples `indices`, as stored."""

    @abstractmethod
    def scaled(self, images: NDArray[Any], standardised: bool) -> NDArray[np.float32]:
        """Convert stored features to model inputs (n, *shape), C-contiguous. `standardised`: see `data.scaling`."""

    def column(self, name: str, split: Split, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Return the values (n,) of a column for the samples `indices`: their labels (`label`), or another column.

        Raises KeyError if the data set has no such column.
        """
        if name != "label":
            raise KeyError(name)
        return self.labels(split, indices)

    def default_size(self, split: Split = "train") -> int:
        """Return the number of samples to divide if the scenario gives no number: all."""
        return self.size(split)

    def candidates(self, samples: int, rng: np.random.Generator, split: Split = "train") -> NDArray[np.int64]:
        """Return shuffled candidates for training: at least `samples` of them, if the split has so many."""
        return rng.permutation(self.size(split))

    def test_set(
        self, count: int | None, rng: np.random.Generator, split: Split = "test"
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
        """Return features, labels and indices of `count` test samples; None: the default number."""
        chosen = np.arange(self.size(split))
        if count is not None:
            chosen = np.sort(rng.permutation(chosen)[:count])
        return self.images(split, chosen), self.labels(split, chosen), chosen

    def unused(
        self, count: int, used: NDArray[np.int64], rng: np.random.Generator, split: Split = "train"
    ) -> NDArray[np.int64]:
        """Return up to `count` samples of a split that are not in `used`."""
        left = np.setdiff1d(np.arange(self.size(split)), used)
        return np.sort(rng.permutation(left)[:count])
