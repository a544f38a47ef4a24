"""Data sets of one's own: one class, whose `load` returns arrays."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

from asyncfl.component import Component, default_property, kind_of
from asyncfl.data.own.arrays import ArraySource
from asyncfl.data.own.samples import FIELDS, Samples, sample_faults
from asyncfl.errors import DataError, Fault, InputError
from asyncfl.own_classes import own_file, told

log = logging.getLogger(__name__)


class Dataset(Component):
    """Base of the data sets that a scenario describes; what the fields say decides what `load` returns."""

    logged: ClassVar[tuple[str, ...]] = (
        "summary.data",
        "rounds.train_loss",
        "rounds.test_loss",
    )

    called: ClassVar[Mapping[str, str]] = FIELDS

    @default_property
    def title(self) -> str:
        """Its name for messages, captions and tables."""
        return kind_of(self)

    @property
    def files(self) -> tuple[str, ...]:
        """Files that it is read from: where they change within a process it is loaded again."""
        return ()

    @abstractmethod
    def load(self) -> Samples:
        """All samples; it is called once, and whoever gets them leaves them as they are.

        Equal fields (and files) must give equal arrays: a random generator in it has a fixed seed. The name of a run
        covers the arrays, so that other contents make another run. Raises DataError for a file that is damaged.
        """


def load_source(dataset: Dataset) -> ArraySource:
    """The samples of a data set, loaded once for equal descriptions and files.

    Raises DataError that names the data set's file, or its class, and all that is wrong with what it holds.
    """
    described = type(dataset), dataset.model_dump_json()
    return _loaded(_Key(dataset, (*described, tuple(map(_stamp, dataset.files)))))


def _stamp(name: str) -> tuple[str, int, int]:
    """What changes when a file is written anew."""
    try:
        path = own_file(name)
        stat = path.stat()
    except (OSError, ValueError, RuntimeError):
        return name, 0, 0  # whoever reads it says what is wrong
    return str(path.resolve()), stat.st_mtime_ns, stat.st_size


class _Key:
    """A data set, equal to others of the same description and files."""

    def __init__(self, dataset: Dataset, identity: tuple[object, ...]) -> None:
        self.dataset, self.identity = dataset, identity

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


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
        raise DataError([Fault("data.dataset", f"{name} cannot be loaded: {told(error)}")]) from None
    if not isinstance(samples, Samples):
        got = type(samples).__name__
        raise DataError([Fault("data.dataset", f"{name}: load must return asyncfl.data.Samples, got {got}")])
    if faults := list(sample_faults(samples, dataset.called)):
        file = next(iter(dataset.files), None)
        if file is not None:
            raise DataError(faults, own_file(file))
        raise DataError(Fault("data.dataset", f"{name}: {fault}") for fault in faults)
    return ArraySource(name, dataset.title, samples)
