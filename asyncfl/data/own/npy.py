"""The user's own data sets that do not fit into memory: a folder of npy files, read client by client."""

from __future__ import annotations

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
from asyncfl.data.own.npz import NPZ_NAMES, columns_of
from asyncfl.data.own.samples import Samples


class NpyFolder(Dataset):
    """A folder with `x_train.npy` and `y_train.npy`; optionally `x_test.npy` and `y_test.npy` for a test set of its
    own, and columns `NAME_train.npy` as for `npz`.

    Features stay on disk (`numpy.memmap`). In memory are labels, columns, the test set, and the samples in use. Before
    a run the features are read once, to find numbers that are not finite and to compute the run's digest.
    """

    kind: Literal["npy"] = "npy"
    path: str = Field(min_length=1, examples=["huge"])
    """The folder; looked for in the working directory, beside the scenario, and on PYTHONPATH."""
    classes: Annotated[int, MeasuredIn("classes")] | None = Field(default=None, ge=2, le=1_000_000)
    """Number of classes; null: one more than the largest label, or a regression."""

    part_names = NPZ_NAMES

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
        arrays: dict[str, NDArray[Any]] = {}
        if len(self.files) == 1 and not _is_folder(self.path):
            raise DataError("must be a folder with x_train.npy and y_train.npy, but there is no such folder", self.path)
        for file in map(Path, self.files[1:]):
            try:
                mapped = np.load(file, mmap_mode="r", allow_pickle=False)
                arrays[file.stem] = mapped if file.stem in ("x_train", "x_test") else np.array(mapped)
            except (OSError, ValueError, EOFError) as error:
                raise DataError(f"cannot be read: {error}", file) from None
        if missing := [name for name in ("x_train", "y_train") if name not in arrays]:
            there = ", ".join(f"{name}.npy" for name in sorted(arrays)) or "no npy files"
            faults = [Fault(f"{name}.npy", f"is missing; the folder has {there}") for name in missing]
            raise DataError(faults, own_file(self.path))
        return Samples(
            arrays["x_train"],
            arrays["y_train"],
            arrays.get("x_test"),
            arrays.get("y_test"),
            self.classes,
            columns_of(arrays, "train"),
            columns_of(arrays, "test"),
        )


def _is_folder(name: str) -> bool:
    try:
        return own_file(name).is_dir()
    except (OSError, ValueError, RuntimeError):  # a NUL in the name, or ~ of an unknown user
        return False
