"""Source of the samples of a user's own data set."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.image_file import to_float
from asyncfl.data.own.samples import Samples, class_names, split_train_test
from asyncfl.data.sample_source import SampleSource, Split

_ROWS = 4096
"""Samples that are processed at once."""


class ArraySource(SampleSource):
    """Samples of a user's own data set, which must be valid (see `sample_faults`)."""

    def __init__(self, name: str, title: str, samples: Samples) -> None:
        self.name, self.title, self.samples = name, title, samples
        self.is_original = True  # the samples stand for no other data set
        features, labels = {"train": samples.features}, {"train": samples.labels}
        columns = {"train": dict(samples.columns), "test": dict(samples.test_columns)}
        self._rows: dict[str, NDArray[np.int64] | None] = {"train": None, "test": None}
        if samples.test_features is None or samples.test_labels is None:
            features["test"], labels["test"] = samples.features, samples.labels
            columns["test"] = columns["train"]
            self._rows = dict(zip(("train", "test"), split_train_test(len(samples.labels)), strict=True))
        else:
            features["test"], labels["test"] = samples.test_features, samples.test_labels
        self._features = {split: _read_only(array) for split, array in features.items()}
        self._columns, self.columns = columns, tuple(columns["train"])
        self.regression = samples.labels.dtype.kind == "f"
        """Whether the labels are numbers to predict instead of classes."""
        self.class_names: tuple[str, ...] = ()
        self._labels: dict[str, NDArray[Any]] = {split: _as_rows(array) for split, array in labels.items()}
        if not self.regression:
            self.class_names = tuple(class_names(samples))
            self._labels = {split: _class_indices(array, self.class_names) for split, array in labels.items()}
        self.classes = samples.classes if isinstance(samples.classes, int) else len(self.class_names)
        self.outputs = int(self._labels["train"].shape[1]) if self.regression else self.classes

    @property
    def provenance(self) -> str:
        of_labels = f"; {self.samples.caption}" if self.samples.caption else ""
        return f"{self.title} ({self.size('train')} + {self.size('test')} samples{of_labels})"

    @property
    def are_images(self) -> bool:
        """Whether the features are images stored as bytes, which are scaled."""
        features = self._features["train"]
        return features.dtype == np.uint8 and features.ndim in (3, 4)

    @property
    def measured_on(self) -> Split | None:
        """Split on which scales (and texts) of the features were measured; None: they are not scaled."""
        return "test" if self.are_images else self.samples.measured_on

    @property
    def on_disk(self) -> bool:
        """Whether the features stay in a file until they are used."""
        return isinstance(self.samples.features, np.memmap)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample as the model receives it."""
        stored = self._features["train"].shape[1:]
        if not self.are_images:
            return stored
        return (1, *stored) if len(stored) == 2 else (stored[2], *stored[:2])

    def size(self, split: Split) -> int:
        rows = self._rows[split]
        return len(self._labels[split]) if rows is None else len(rows)

    def labels(self, split: Split, indices: NDArray[np.int64]) -> NDArray[Any]:
        labels: NDArray[Any] = self._labels[split][self._places(split, indices)]
        return labels

    def images(self, split: Split, indices: NDArray[np.int64]) -> NDArray[Any]:
        taken: NDArray[Any] = self._features[split][self._places(split, indices)]
        return taken

    def column(self, name: str, split: Split, indices: NDArray[np.int64]) -> NDArray[Any]:
        if name == "label":
            return self.labels(split, indices)
        values: NDArray[Any] = self._columns[split][name][self._places(split, indices)]
        return values

    def scaled(self, images: NDArray[Any], standardised: bool) -> NDArray[np.float32]:
        if self.are_images:
            return to_float(images, self.scale if standardised else None)
        return np.ascontiguousarray(images, np.float32)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all contents: arrays with their types and shapes, classes, columns."""
        found = hashlib.sha256(repr((self.classes, self.class_names)).encode())
        once = self._rows["test"] is not None
        for split in ("train",) if once else ("train", "test"):
            for label, array in (("features", self._features[split]), ("labels", self._labels[split])):
                found.update(f"{split} {label} {array.dtype.str} {array.shape}".encode())
                for start in range(0, len(array), _ROWS):
                    found.update(np.ascontiguousarray(array[start : start + _ROWS]).data)
            for name, values in sorted(self._columns[split].items()):
                found.update(f"{split} {name} {values.tolist()}".encode())
        return found.hexdigest()

    @cached_property
    def scale(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and deviation in units of 0..1, one number per channel, of the pixels of the test samples, which no
        client holds; a constant channel has deviation 1."""
        channels = self.shape[0]
        counts = np.zeros((channels, 256), np.int64)
        for start in range(0, self.size("test"), _ROWS):
            part = self.images("test", np.arange(start, min(start + _ROWS, self.size("test"))))
            for channel in range(channels):
                counts[channel] += np.bincount((part if part.ndim == 3 else part[..., channel]).ravel(), minlength=256)
        levels = np.arange(256) / 255
        mean = counts @ levels / counts.sum(1)
        deviation = np.sqrt(np.maximum(counts @ levels**2 / counts.sum(1) - mean**2, 0))
        return tuple(mean.tolist()), tuple(np.where(deviation > 0, deviation, 1.0).tolist())

    def _places(self, split: Split, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        rows = self._rows[split]
        return indices if rows is None else rows[indices]


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
        rows = self._rows[chosen]
        found = self._source.scaled(self._source.images(self._split, np.atleast_1d(rows)), self._standardised)
        return found if np.ndim(rows) else found[0]


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.setflags(write=False)
    return view


def _as_rows(labels: NDArray[Any]) -> NDArray[Any]:
    """Return numbers to predict as (n, outputs) float32, classes unchanged."""
    return labels.reshape(len(labels), -1).astype(np.float32) if labels.dtype.kind == "f" else labels


def _class_indices(labels: NDArray[Any], names: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the index (n,) of each label among the class names."""
    if labels.dtype.kind not in "UO":
        return labels.astype(np.int64)
    place = {name: number for number, name in enumerate(names)}
    return np.array([place[str(one)] for one in labels.tolist()], np.int64)
