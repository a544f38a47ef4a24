"""The user's own data sets in NumPy's files: one npz file, or a folder of npy files that may exceed the memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.component import default_property
from asyncfl.base.errors import DataError, Fault
from asyncfl.base.own_classes import own_file
from asyncfl.base.quantities import MeasuredIn
from asyncfl.data.image_file import read_npz
from asyncfl.data.own.dataset import Dataset
from asyncfl.data.own.samples import Samples

_NAMES: Mapping[str, str] = {
    "features": "x_train", "labels": "y_train", "columns": "*_train", "classes": "classes",
    "test_features": "x_test", "test_labels": "y_test", "test_columns": "*_test",
}  # fmt: skip
"""Names of the parts of `Samples` in messages."""
Classes = Annotated[int, MeasuredIn("classes")] | None


class NpzFile(Dataset):
    """Arrays of an npz file: `x_train`, `y_train`, and optionally `x_test`, `y_test` for a test set of its own.

    `x_*` are numbers of any shape (n, ...), or pictures as bytes; `y_*` are classes from 0, or text, or (as floats) the
    numbers (n,) or (n, outputs) that a regression predicts. Other arrays `NAME_train` and `NAME_test` with one value
    per sample (writer, region) are columns for partitions.
    """

    kind: Literal["npz"] = "npz"
    path: str = Field(min_length=1, examples=["sensors.npz"])
    """The file; looked for in the working directory, beside the scenario, and on PYTHONPATH."""
    classes: Classes = Field(default=None, ge=2, le=1_000_000)
    """Number of classes; null: one more than the largest label, or a regression."""

    part_names = _NAMES

    @default_property
    def title(self) -> str:
        return Path(self.path).name

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def load(self) -> Samples:
        """Load the arrays of the file; pickled objects are refused."""
        try:
            path = own_file(self.path)
        except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, or ~ of an unknown user
            raise DataError(f"cannot be read: {error}", self.path) from None
        return _samples(read_npz(path, ("x_train", "y_train"), only_these=False), self.classes)


class NpyFolder(Dataset):
    """A folder with `x_train.npy` and `y_train.npy`; optionally `x_test.npy` and `y_test.npy` for a test set of its
    own, and columns `NAME_train.npy` as for `npz`.

    Features stay on disk (`numpy.memmap`). In memory are labels, columns, the test set, and the samples in use. Before
    a run the features are read once, to find numbers that are not finite and to compute the run's digest.
    """

    kind: Literal["npy"] = "npy"
    path: str = Field(min_length=1, examples=["huge"])
    """The folder; looked for in the working directory, beside the scenario, and on PYTHONPATH."""
    classes: Classes = Field(default=None, ge=2, le=1_000_000)
    """Number of classes; null: one more than the largest label, or a regression."""

    part_names = _NAMES

    @default_property
    def title(self) -> str:
        return Path(self.path).name or self.path

    @property
    def files(self) -> tuple[str, ...]:
        try:
            return (self.path, *sorted(map(str, own_file(self.path).glob("*.npy"))))
        except (OSError, ValueError, RuntimeError):
            return (self.path,)

    def load(self) -> Samples:
        """Load labels and columns into memory and map the features."""
        files = self.files[1:]
        if not files and not _is_folder(self.path):
            raise DataError("must be a folder with x_train.npy and y_train.npy, but there is no such folder", self.path)
        arrays: dict[str, NDArray[Any]] = {}
        for file in map(Path, files):
            try:
                mapped = np.load(file, mmap_mode="r", allow_pickle=False)
                arrays[file.stem] = mapped if file.stem in ("x_train", "x_test") else np.array(mapped)
            except (OSError, ValueError, EOFError) as error:
                raise DataError(f"cannot be read: {error}", file) from None
        if missing := [name for name in ("x_train", "y_train") if name not in arrays]:
            there = ", ".join(f"{name}.npy" for name in sorted(arrays)) or "no npy files"
            faults = [Fault(f"{name}.npy", f"is missing; the folder has {there}") for name in missing]
            raise DataError(faults, own_file(self.path))
        return _samples(arrays, self.classes)


def _is_folder(name: str) -> bool:
    try:
        return own_file(name).is_dir()
    except (OSError, ValueError, RuntimeError):
        return False


def _samples(arrays: Mapping[str, NDArray[Any]], classes: int | None) -> Samples:
    """Gather arrays by name; all but x_* and y_* are columns."""
    columns: dict[str, dict[str, NDArray[Any]]] = {"train": {}, "test": {}}
    for name, array in arrays.items():
        column, _, split = name.rpartition("_")
        if split in columns and column not in ("x", "y", ""):
            columns[split][column] = array
    tests = arrays.get("x_test"), arrays.get("y_test")
    return Samples(arrays["x_train"], arrays["y_train"], *tests, classes, columns["train"], columns["test"])
