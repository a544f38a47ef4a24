"""The user's own data sets in npz files."""

from __future__ import annotations

import zipfile
import zlib
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
from asyncfl.data.own.dataset import Dataset
from asyncfl.data.own.samples import Samples

_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, KeyError, NotImplementedError)

NPZ_NAMES: Mapping[str, str] = {
    "features": "x_train",
    "labels": "y_train",
    "test_features": "x_test",
    "test_labels": "y_test",
    "columns": "*_train",
    "test_columns": "*_test",
    "classes": "classes",
}
"""Names of the parts of `Samples` in messages."""


class NpzFile(Dataset):
    """Arrays of an npz file: `x_train`, `y_train`, and optionally `x_test`, `y_test` for a test set of its own.

    `x_*` are numbers of any shape (n, ...), or pictures as bytes; `y_*` are classes from 0, or text, or (as floats) the
    numbers (n,) or (n, outputs) that a regression predicts. Other arrays `NAME_train` and `NAME_test` with one value
    per sample (writer, region) are columns for partitions.
    """

    kind: Literal["npz"] = "npz"
    path: str = Field(min_length=1, examples=["sensors.npz"])
    """The file; looked for in the working directory, beside the scenario, and on PYTHONPATH."""
    classes: Annotated[int, MeasuredIn("classes")] | None = Field(default=None, ge=2, le=1_000_000)
    """Number of classes; null: one more than the largest label, or a regression."""

    part_names = NPZ_NAMES

    @default_property
    def title(self) -> str:
        return Path(self.path).name

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def load(self) -> Samples:
        """Load the arrays of the file; pickled objects are refused."""
        arrays: dict[str, NDArray[Any]] = {}
        name = ""
        try:
            path = own_file(self.path)
            if not zipfile.is_zipfile(path) and path.is_file():
                raise DataError("must be an npz file with arrays x_train and y_train, but it is not an npz file", path)
            with np.load(path, allow_pickle=False) as archive:
                for name in archive.files:
                    arrays[name] = archive[name]
        except _BROKEN as error:
            raise DataError([Fault(name, f"cannot be read: {error or type(error).__name__}")], self.path) from None
        if missing := [name for name in ("x_train", "y_train") if name not in arrays]:
            there = ", ".join(sorted(arrays)) or "no arrays"
            raise DataError((Fault(name, f"is missing; the file has {there}") for name in missing), path)
        return Samples(
            arrays["x_train"],
            arrays["y_train"],
            arrays.get("x_test"),
            arrays.get("y_test"),
            self.classes,
            columns_of(arrays, "train"),
            columns_of(arrays, "test"),
        )


def columns_of(arrays: Mapping[str, NDArray[Any]], split: str) -> dict[str, NDArray[Any]]:
    """Select the columns of a split: name -> values."""
    ending = f"_{split}"
    names = [name for name in arrays if name.endswith(ending) and name[: -len(ending)] not in ("x", "y", "")]
    return {name[: -len(ending)]: arrays[name] for name in names}
