"""Samples of a data set of one's own, as all other data sets are asked for theirs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.own.samples import Samples, split_train_test
from asyncfl.data.pixels import to_float
from asyncfl.data.sample_source import FiniteSource, Split

_ROWS = 4096
"""Samples that are looked at in one go."""


@dataclass(frozen=True)
class MeasuredScale:
    """Mean and deviation of pixels in units of 0..1, one number per channel; a constant channel has deviation 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


class ArraySource(FiniteSource):
    """The samples of a data set of one's own. They are taken to be sound, see `sample_faults`."""

    def __init__(self, name: str, title: str, samples: Samples) -> None:
        self._name, self._title, self.samples = name, title, samples
        features, labels = {"train": samples.features}, {"train": samples.labels}
        columns: dict[str, dict[str, NDArray[Any]]] = {
            "train": dict(samples.columns),
            "test": dict(samples.test_columns),
        }
        self._rows: dict[str, NDArray[np.int64] | None] = {"train": None, "test": None}
        if samples.test_features is None or samples.test_labels is None:
            features["test"], labels["test"] = samples.features, samples.labels
            columns["test"] = columns["train"]
            self._rows = dict(zip(("train", "test"), split_train_test(len(samples.labels)), strict=True))
        else:
            features["test"], labels["test"] = samples.test_features, samples.test_labels
        self._features = {split: _read_only(array) for split, array in features.items()}
        self._columns = columns
        self.regression = samples.labels.dtype.kind == "f"
        """Whether the labels are numbers to predict, and not classes."""
        self.class_names: tuple[str, ...] = ()
        self._labels: dict[str, NDArray[Any]] = {split: _as_rows(array) for split, array in labels.items()}
        if not self.regression:
            self.class_names = _class_names(samples, list(labels.values()))
            self._labels = {split: _numbered(array, self.class_names) for split, array in labels.items()}
        self.classes = samples.classes if isinstance(samples.classes, int) else len(self.class_names)
        self.outputs = int(self._labels["train"].shape[1]) if self.regression else self.classes

    @property
    def name(self) -> str:
        return self._name

    @property
    def title(self) -> str:
        return self._title

    @property
    def is_original(self) -> bool:
        """They stand for nothing but themselves."""
        return True

    @property
    def provenance(self) -> str:
        """One line for captions."""
        of_labels = f"; {self.samples.caption}" if self.samples.caption else ""
        return f"{self.title} ({self.size('train')} + {self.size('test')} samples{of_labels})"

    @property
    def are_images(self) -> bool:
        """Whether the features are bytes of pictures, which are scaled."""
        features = self._features["train"]
        return features.dtype == np.uint8 and features.ndim in (3, 4)

    @property
    def on_disk(self) -> bool:
        """Whether the features stay in a file until they are asked for."""
        return isinstance(self.samples.features, np.memmap)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample as the model sees it."""
        stored = self._features["train"].shape[1:]
        if not self.are_images:
            return stored
        return (1, *stored) if len(stored) == 2 else (stored[2], *stored[:2])

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._columns["train"])

    def size(self, split: Split) -> int:
        """Number of samples of a split."""
        rows = self._rows[split]
        return len(self._labels[split]) if rows is None else len(rows)

    def labels(self, split: Split, indices: NDArray[np.int64]) -> NDArray[Any]:
        """(n,) classes, or (n, outputs) numbers to predict, of the samples `indices`."""
        labels: NDArray[Any] = self._labels[split][self._places(split, indices)]
        return labels

    def images(self, split: Split, indices: NDArray[np.int64]) -> NDArray[Any]:
        """(n, ...) features of the samples `indices`, as they were given."""
        taken: NDArray[Any] = self._features[split][self._places(split, indices)]
        return taken

    def column(self, name: str, split: Split, indices: NDArray[np.int64]) -> NDArray[Any]:
        """(n,) another column of the samples `indices`."""
        if name == "label":
            return self.labels(split, indices)
        values: NDArray[Any] = self._columns[split][name][self._places(split, indices)]
        return values

    def scaled(self, images: NDArray[Any], standardised: bool) -> NDArray[np.float32]:
        """(n, *shape): pictures 0..1 or by mean and deviation of all training samples, other numbers as they are."""
        if self.are_images:
            return to_float(images, self.scale if standardised else None)
        return np.ascontiguousarray(images, np.float32)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that was given: arrays with their types and shapes, classes, columns."""
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
    def scale(self) -> MeasuredScale:
        """How pictures are standardised: as the bytes of all samples to train on."""
        channels = self.shape[0]
        counts = np.zeros((channels, 256), np.int64)
        for start in range(0, self.size("train"), _ROWS):
            part = self.images("train", np.arange(start, min(start + _ROWS, self.size("train"))))
            for channel in range(channels):
                counts[channel] += np.bincount((part if part.ndim == 3 else part[..., channel]).ravel(), minlength=256)
        levels = np.arange(256) / 255
        mean = counts @ levels / counts.sum(1)
        deviation = np.sqrt(np.maximum(counts @ levels**2 / counts.sum(1) - mean**2, 0))
        return MeasuredScale(tuple(mean.tolist()), tuple(np.where(deviation > 0, deviation, 1.0).tolist()))

    def _places(self, split: Split, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        rows = self._rows[split]
        return indices if rows is None else rows[indices]


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.setflags(write=False)
    return view


def _as_rows(labels: NDArray[Any]) -> NDArray[Any]:
    """Numbers to predict as (n, outputs) float32; classes as they are."""
    return labels.reshape(len(labels), -1).astype(np.float32) if labels.dtype.kind == "f" else labels


def _class_names(samples: Samples, labels: list[NDArray[Any]]) -> tuple[str, ...]:
    """Names of the classes in their order: those that were given, the texts that occur, or numbers."""
    if samples.classes is not None and not isinstance(samples.classes, int):
        return tuple(samples.classes)
    if samples.labels.dtype.kind in "UO":
        return tuple(sorted({str(one) for part in labels for one in part.tolist()}))
    most = samples.classes or 1 + max(int(part.max()) for part in labels)
    return tuple(str(label) for label in range(most))


def _numbered(labels: NDArray[Any], names: tuple[str, ...]) -> NDArray[np.int64]:
    """(n,) the place of each label among the classes."""
    if labels.dtype.kind not in "UO":
        return labels.astype(np.int64)
    place = {name: number for number, name in enumerate(names)}
    return np.array([place[str(one)] for one in labels.tolist()], np.int64)
