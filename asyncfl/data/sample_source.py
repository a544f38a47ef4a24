"""What a data set must be able to tell for its samples to be shared out, wherever they come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Split = Literal["train", "test"]


class SampleSource(ABC):
    """The samples of one data set: a split to train on and one to test on, each numbered from 0."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the data set as a scenario gives it."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Its name for messages and captions."""

    @property
    @abstractmethod
    def is_original(self) -> bool:
        """Whether these are all samples of the data set itself: no stand-ins, no part of it."""

    @property
    @abstractmethod
    def provenance(self) -> str:
        """One line for captions: which samples these are."""

    @abstractmethod
    def size(self, split: Split) -> int:
        """Number of samples of a split."""

    @abstractmethod
    def default_size(self, split: Split = "train") -> int:
        """Samples that are shared out where no number is asked for."""

    @abstractmethod
    def labels(self, split: Split, indices: NDArray[np.int64]) -> NDArray[Any]:
        """(n,) classes, or (n, outputs) numbers to predict, of the samples `indices`."""

    @abstractmethod
    def images(self, split: Split, indices: NDArray[np.int64]) -> NDArray[Any]:
        """(n, ...) features of the samples `indices`, as they are stored."""

    @abstractmethod
    def scaled(self, images: NDArray[Any], standardised: bool) -> NDArray[np.float32]:
        """(n, *shape) stored features as the model sees them, C-contiguous. `standardised`: see `data.scaling`."""

    def column(self, name: str, split: Split, indices: NDArray[np.int64]) -> NDArray[Any]:
        """(n,) what a partition sorts the samples `indices` by: their labels, or another column of the data set.

        Raises KeyError for a column that the data set has not.
        """
        if name != "label":
            raise KeyError(name)
        return self.labels(split, indices)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names that `column` knows besides `label`."""
        return ()

    @abstractmethod
    def pool(self, samples: int, rng: np.random.Generator, split: Split = "train") -> NDArray[np.int64]:
        """Samples to train on, to choose from: at least `samples`, shuffled, where there are so many."""

    @abstractmethod
    def test_set(
        self, count: int | None, rng: np.random.Generator, split: Split = "test"
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
        """Features, labels and indices of `count` samples to test on; None: all there are, or what is usual."""

    @abstractmethod
    def unused(
        self, count: int, used: NDArray[np.int64], rng: np.random.Generator, split: Split = "train"
    ) -> NDArray[np.int64]:
        """Up to `count` samples of a split that are not among `used`."""


class FiniteSource(SampleSource):
    """A data set with so many samples and no more."""

    def default_size(self, split: Split = "train") -> int:
        """All there are."""
        return self.size(split)

    def pool(self, samples: int, rng: np.random.Generator, split: Split = "train") -> NDArray[np.int64]:
        """All samples of the split, shuffled, however many are asked for."""
        return rng.permutation(self.size(split))

    def test_set(
        self, count: int | None, rng: np.random.Generator, split: Split = "test"
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
        """Features, labels and indices of `count` samples to test on, drawn without replacement; None: all."""
        chosen = np.arange(self.size(split))
        if count is not None:
            chosen = np.sort(rng.permutation(chosen)[:count])
        return self.images(split, chosen), self.labels(split, chosen), chosen

    def unused(
        self, count: int, used: NDArray[np.int64], rng: np.random.Generator, split: Split = "train"
    ) -> NDArray[np.int64]:
        """Up to `count` samples of a split that are not among `used`, drawn without replacement."""
        left = np.setdiff1d(np.arange(self.size(split)), used)
        return np.sort(rng.permutation(left)[:count])
