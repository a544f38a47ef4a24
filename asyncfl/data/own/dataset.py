"""Data sets that a scenario describes by fields: their base class, whose `load` returns arrays, and their samples."""

from __future__ import annotations

import hashlib
import logging
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from asyncfl.base.component import Component, default_property, kind_of
from asyncfl.base.errors import DataError, Fault, InputError
from asyncfl.base.own_classes import describe_exception, own_file
from asyncfl.data.own.samples import PART_NAMES, Samples, sample_faults, split_train_test
from asyncfl.data.sample_source import Array, Floats, Ints, SampleSource, Scale, Scaling, Split

log = logging.getLogger(__name__)
_ROWS = 4096  # samples that are processed at once


class Dataset(Component):
    """Base class of the data sets that a scenario describes by fields; `load` returns their samples."""

    logged: ClassVar[tuple[str, ...]] = ("summary.data", "rounds.train_loss", "rounds.test_loss")
    part_names: ClassVar[Mapping[str, str]] = PART_NAMES

    @default_property
    def title(self) -> str:
        """Name of the data set in messages, captions and tables."""
        return kind_of(self)

    @property
    def files(self) -> tuple[str, ...]:
        """Files that are read; if one of them changes, the data set is loaded again."""
        return ()

    @abstractmethod
    def load(self) -> Samples:
        """Load all samples. It is called once, and its arrays are never modified.

        Equal fields (and files) must give equal arrays: use a fixed seed for random numbers. The digest of a run
        includes the arrays, so other contents make another run. Raises DataError for a damaged file.
        """


_loaded: dict[object, ArraySource] = {}  # the last few data sets, by description and state of their files


def load_source(dataset: Dataset) -> ArraySource:
    """Load the samples of a data set, once for equal descriptions and files.

    Raises DataError, naming the data set's file or class, with all faults of its arrays.
    """
    identity = type(dataset), dataset.model_dump_json(), tuple(map(_stamp, dataset.files))
    if identity not in _loaded:
        _loaded[identity] = _load(dataset)
        if len(_loaded) > 4:
            del _loaded[next(iter(_loaded))]
    return _loaded[identity]


def located(name: str) -> Path:
    """Find a file or folder of the user's own, see `own_file`. Raises DataError for an impossible path."""
    try:
        return own_file(name)
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, or ~ of an unknown user
        raise DataError(f"cannot be read: {error}", name) from None


def _stamp(name: str) -> tuple[str, int, int]:
    """Return path, modification time and size of a file, which change when it is rewritten."""
    try:
        path = own_file(name)
        stat = path.stat()
    except (OSError, ValueError, RuntimeError):
        return name, 0, 0  # reading the file will report the error
    return str(path.resolve()), stat.st_mtime_ns, stat.st_size


def _load(dataset: Dataset) -> ArraySource:
    name = kind_of(dataset)
    log.info("%s is loaded", dataset.title)
    try:
        samples = dataset.load()
    except (InputError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise DataError([Fault("data.dataset", f"{name} cannot be loaded: {describe_exception(error)}")]) from None
    if not isinstance(samples, Samples):
        got = type(samples).__name__
        raise DataError([Fault("data.dataset", f"{name}: load must return asyncfl.data.Samples, got {got}")])
    if faults := list(sample_faults(samples, dataset.part_names)):
        if dataset.files:
            raise DataError(faults, own_file(dataset.files[0]))
        raise DataError(Fault("data.dataset", f"{name}: {fault}") for fault in faults)
    return ArraySource(name, dataset.title, samples)


class ArraySource(SampleSource):
    """Samples of a user's own data set, which must be valid (see `sample_faults`)."""

    is_original = True  # the samples stand for no other data set

    def __init__(self, name: str, title: str, samples: Samples) -> None:
        self.name, self.title, self.samples = name, title, samples
        self.class_names = samples.class_names
        self.columns = tuple(samples.columns)
        given = samples.features, self._targets(samples.labels), dict(samples.columns)
        self._parts = {"train": given, "test": given}
        self._rows: dict[str, Ints | None] = {"train": None, "test": None}
        if samples.test_features is None or samples.test_labels is None:
            self._rows = dict(zip(("train", "test"), split_train_test(len(samples.labels)), strict=True))
        else:
            tests = samples.test_features, self._targets(samples.test_labels), dict(samples.test_columns)
            self._parts["test"] = tests
        self.classes = samples.classes if isinstance(samples.classes, int) else len(self.class_names)
        self.outputs = self.classes or int(self._parts["train"][1].shape[1])
        features, caption = samples.features, samples.caption and f"; {samples.caption}"
        self.provenance = f"{title} ({self.size('train')} + {self.size('test')} samples{caption})"
        self.are_images = features.dtype == np.uint8 and features.ndim in (3, 4)
        """Whether the features are images stored as bytes, which are scaled."""
        self.measured_on: Split | None = "test" if self.are_images else samples.measured_on
        """Split on which scales (and texts) of the features were measured; None: they are not scaled."""
        self.on_disk = isinstance(features, np.memmap)
        """Whether the features stay in a file until they are used."""
        stored = features.shape[1:]
        self.shape = stored if not self.are_images else (1, *stored) if len(stored) == 2 else (stored[2], *stored[:2])
        """Shape of a sample as the model receives it."""

    def _targets(self, labels: Array) -> Array:
        """Return the index (n,) of each label among the class names, or numbers to predict as (n, outputs) float32."""
        if labels.dtype.kind == "f":
            return labels.reshape(len(labels), -1).astype(np.float32)
        if labels.dtype.kind not in "UO":
            return labels.astype(np.int64)
        place = {name: number for number, name in enumerate(self.class_names)}
        return np.array([place[str(one)] for one in labels.tolist()], np.int64)

    def size(self, split: Split) -> int:
        rows = self._rows[split]
        return len(self._parts[split][1]) if rows is None else len(rows)

    def labels(self, split: Split, indices: Ints) -> Array:
        return np.asarray(self._parts[split][1][self._places(split, indices)])

    def images(self, split: Split, indices: Ints) -> Array:
        return np.asarray(self._parts[split][0][self._places(split, indices)])

    def column(self, name: str, split: Split, indices: Ints) -> Array:
        if name == "label":
            return self.labels(split, indices)
        return np.asarray(self._parts[split][2][name][self._places(split, indices)])

    def scaled(self, images: Array, scaling: Scaling) -> Floats:
        return super().scaled(images, scaling) if self.are_images else np.ascontiguousarray(images, np.float32)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all contents: arrays with their types and shapes, classes, columns."""
        found = hashlib.sha256(repr((self.classes, self.class_names)).encode())
        for split in ("train", "test") if self._rows["test"] is None else ("train",):
            features, labels, columns = self._parts[split]
            for label, array in (("features", features), ("labels", labels)):
                found.update(f"{split} {label} {array.dtype.str} {array.shape}".encode())
                for start in range(0, len(array), _ROWS):
                    found.update(np.ascontiguousarray(array[start : start + _ROWS]).data)
            for name, values in sorted(columns.items()):
                found.update(f"{split} {name} {values.tolist()}".encode())
        return found.hexdigest()

    @cached_property
    def scale(self) -> Scale:  # type: ignore[override]
        """Mean and deviation, per channel, of the pixels of the test samples, which no client holds; a constant channel
        has deviation 1."""
        pixels = self.images("test", np.arange(self.size("test")))
        planes = np.moveaxis(pixels, -1, 0) if pixels.ndim == 4 else [pixels]
        counts = np.array([np.bincount(plane.ravel(), minlength=256) for plane in planes])
        levels = np.arange(256) / 255
        mean = counts @ levels / counts.sum(1)
        deviation = np.sqrt(np.maximum(counts @ levels**2 / counts.sum(1) - mean**2, 0))
        return tuple(mean.tolist()), tuple(np.where(deviation > 0, deviation, 1.0).tolist())

    def _places(self, split: Split, indices: Ints) -> Ints:
        rows = self._rows[split]
        return indices if rows is None else rows[indices]


class MappedRows:
    """The scaled features of selected samples, read when rows are indexed: `rows[5:9]`, `rows[mask]`.

    Training and evaluation can use it as an array (n, *shape) float32: it has its length, shape, type and number of
    axes.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, source: ArraySource, split: Split, rows: Ints, scaling: Scaling) -> None:
        self._source, self._split, self._rows, self._scaling = source, split, rows, scaling
        self.shape = (len(rows), *source.shape)
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, chosen: Any) -> Floats:
        rows = self._rows[chosen]
        found = self._source.scaled(self._source.images(self._split, np.atleast_1d(rows)), self._scaling)
        return found if np.ndim(rows) else found[0]
