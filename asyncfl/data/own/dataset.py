"""Base class of the user's own data sets, whose `load` returns arrays."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

from asyncfl.base.component import Component, default_property, kind_of
from asyncfl.base.errors import DataError, Fault, InputError
from asyncfl.base.own_classes import describe_exception, own_file
from asyncfl.data.own.arrays import ArraySource
from asyncfl.data.own.samples import PART_NAMES, Samples, sample_faults

log = logging.getLogger(__name__)


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


def load_source(dataset: Dataset) -> ArraySource:
    """Load the samples of a data set, once for equal descriptions and files.

    Raises DataError, naming the data set's file or class, with all faults of its arrays.
    """
    described = type(dataset), dataset.model_dump_json()
    return _loaded(_Key(dataset, (*described, tuple(map(_stamp, dataset.files)))))


def _stamp(name: str) -> tuple[str, int, int]:
    """Return path, modification time and size of a file, which change when it is rewritten."""
    try:
        path = own_file(name)
        stat = path.stat()
    except (OSError, ValueError, RuntimeError):
        return name, 0, 0  # reading the file will report the error
    return str(path.resolve()), stat.st_mtime_ns, stat.st_size


@dataclass(frozen=True)
class _Key:
    """A data set that compares equal to others with the same description and files."""

    dataset: Dataset = field(compare=False)
    identity: tuple[object, ...]


@lru_cache(maxsize=4)
def _loaded(key: _Key) -> ArraySource:
    dataset = key.dataset
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
