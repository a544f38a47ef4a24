"""The user's own data sets in files of arrays and pictures: npz, a folder of npy files, a folder per class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.component import default_property
from asyncfl.base.errors import DataError, Fault
from asyncfl.base.files.reading import check_ordinary
from asyncfl.base.quantities import MeasuredIn
from asyncfl.data.image_file import read_npz
from asyncfl.data.own.dataset import Dataset, located
from asyncfl.data.own.pictures import Colours, picture_bytes
from asyncfl.data.own.samples import Samples
from asyncfl.data.sample_source import Array, Ints

Classes = Annotated[int, MeasuredIn("classes")] | None
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
"""Endings of picture files, in lower case; other files are ignored."""
VALIDATION = ("val", "valid", "validation")
"""Names of a folder of pictures that stands for `test` where there is none."""


OTHER_NAMES = {
    f"{split}_{part}": f"{axis}_{split}"
    for split in ("train", "test")
    for part, axis in (("images", "x"), ("labels", "y"))
}
"""Names of arrays in files of MedMNIST -> our names."""
UNREAD = ("val_images", "val_labels")


def _flat_classes(labels: Array) -> Array:
    """Return classes of shape (n, 1) as (n,); numbers to predict as they are."""
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 and labels.dtype.kind in "buiUO" else labels


class InFiles(Dataset):
    """Base class of the data sets that lie at a `path`."""

    kind: str
    path: str

    @default_property
    def title(self) -> str:
        return Path(self.path).name or self.path

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)


class _ArrayFiles(InFiles):
    """Arrays by name: `x_train`, `y_train` and more."""

    part_names: ClassVar[Mapping[str, str]] = {
        "features": "x_train", "labels": "y_train", "columns": "*_train", "classes": "classes",
        "test_features": "x_test", "test_labels": "y_test", "test_columns": "*_test",
    }  # fmt: skip
    classes: Classes = None

    def gathered(self, arrays: Mapping[str, Array]) -> Samples:
        """Gather arrays by name; all but x_* and y_* are columns. Classes (n, 1) become (n,)."""
        arrays = {
            name: _flat_classes(array) if name in ("y_train", "y_test") else array for name, array in arrays.items()
        }
        columns: dict[str, dict[str, Array]] = {"train": {}, "test": {}}
        for name, array in arrays.items():
            column, _, split = name.rpartition("_")
            if split in columns and column not in ("x", "y", ""):
                columns[split][column] = array
        tests = arrays.get("x_test"), arrays.get("y_test")
        return Samples(arrays["x_train"], arrays["y_train"], *tests, self.classes, columns["train"], columns["test"])


class NpzFile(_ArrayFiles):
    """Arrays of an npz file: `x_train`, `y_train`, and optionally `x_test`, `y_test` for a test set of its own.

    `x_*` are numbers of any shape (n, ...), or pictures as bytes; `y_*` are classes from 0, or text, or (as floats) the
    numbers (n,) or (n, outputs) that a regression predicts. Other arrays `NAME_train` and `NAME_test` with one value
    per sample (writer, region) are columns for partitions. Files of MedMNIST are read by their names
    (`train_images`, ...); what they keep for validation is not used.
    """

    kind: Literal["npz"] = "npz"
    path: str = Field(min_length=1, examples=["sensors.npz"])
    """The file; looked for in the working directory, beside the scenario, and on PYTHONPATH."""
    classes: Classes = Field(default=None, ge=2, le=1_000_000)
    """Number of classes; null: one more than the largest label, or a regression."""

    def load(self) -> Samples:
        """Load the arrays of the file; pickled objects are refused."""
        found = read_npz(located(self.path), ("x_train", "y_train"), only_these=False, other_names=OTHER_NAMES)
        unread = sorted(name for name in found if name in UNREAD)
        samples = self.gathered({name: array for name, array in found.items() if name not in UNREAD})
        told = f"{' and '.join(unread)} are not used" if unread else ""
        return replace(samples, caption=told)


class NpyFolder(_ArrayFiles):
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

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path, *sorted(map(str, located(self.path).glob("*.npy"))))

    def load(self) -> Samples:
        """Load labels and columns into memory and map the features."""
        folder = located(self.path)
        if not folder.is_dir():
            raise DataError("must be a folder with x_train.npy and y_train.npy, but there is no such folder", self.path)
        arrays: dict[str, Array] = {}
        for file in map(Path, self.files[1:]):
            try:
                check_ordinary(file)
                mapped = np.load(file, mmap_mode="r", allow_pickle=False)
                arrays[file.stem] = mapped if file.stem in ("x_train", "x_test") else np.array(mapped)
            except (OSError, ValueError, EOFError) as error:
                raise DataError(f"cannot be read: {error}", file) from None
        if missing := [name for name in ("x_train", "y_train") if name not in arrays]:
            there = ", ".join(f"{name}.npy" for name in sorted(arrays)) or "no npy files"
            faults = [Fault(f"{name}.npy", f"is missing; the folder has {there}") for name in missing]
            raise DataError(faults, folder)
        return self.gathered(arrays)


class ImageFolder(InFiles):
    """Pictures in a folder per class, `PATH/cats/1.png`; or `PATH/train/cats/...` and `PATH/test/cats/...`.

    The classes are named after the folders, in alphabetical order; pictures may lie in folders below. In place of
    `test` there may be a folder `val`. Grey of 16 bits is scaled to bytes, transparency composed over white, and a
    picture turned as its EXIF data say.
    """

    kind: Literal["folder"] = "folder"
    path: str = Field(min_length=1, examples=["pets"])
    """The folder; looked for in the working directory, beside the scenario, and on PYTHONPATH."""
    size: Annotated[tuple[int, int], MeasuredIn("pixels")] | None = None
    """Height and width in pixels to which every picture is resized (bilinear); null: all must have the same size."""
    colours: Colours = "rgb"
    """Number of channels of every picture: `rgb` three, `grey` one."""

    @property
    def files(self) -> tuple[str, ...]:
        """The folder, its subfolders, and the pictures."""
        below = located(self.path).rglob("*")
        return (self.path, *sorted(str(path) for path in below if path.is_dir() or path.suffix.lower() in ENDINGS))

    def load(self) -> Samples:
        """Load all pictures as bytes (n, height, width[, 3]), in the alphabetical order of classes and files."""
        root = located(self.path)
        if not root.is_dir():
            raise DataError("must be a folder with one folder of pictures per class, but there is no such folder", root)
        splits = [root]
        if (root / "train").is_dir():
            tests = [name for name in ("test", *VALIDATION) if (root / name).is_dir()]
            splits = [root / "train", *(root / name for name in tests[:1])]
            if unread := [name for name in _folders(root) if root / name not in splits]:
                got = f"got also {', '.join(unread)}"
                raise DataError(f"must hold train and test (or val in its place), {got}; move it away", root)
        names = _folders(splits[0])
        if len(names) < 2:
            got = ", ".join(names) or "none"
            raise DataError(f"must hold at least two folders of pictures, one per class, got {got}", splits[0])
        parts = [self._split(split, names) for split in splits]
        if len(parts) == 2 and parts[0][0].shape[1:] != parts[1][0].shape[1:]:
            train, test = ("x".join(map(str, part[0].shape[1:3])) for part in parts)
            raise DataError(f"must hold pictures of {train} pixels as train does, got {test}; give size", splits[1])
        test_pictures, test_labels = parts[1] if len(parts) == 2 else (None, None)
        return Samples(*parts[0], test_pictures, test_labels, names)

    def _split(self, folder: Path, names: list[str]) -> tuple[NDArray[np.uint8], Ints]:
        pictures: list[NDArray[np.uint8]] = []
        labels: list[int] = []
        faults: list[Fault] = []
        if unknown := [name for name in _folders(folder) if name not in names]:
            raise DataError(f"must hold the classes {', '.join(names)}, got also {', '.join(unknown)}", folder)
        for label, name in enumerate(names):
            found = sorted(path for path in (folder / name).rglob("*") if path.suffix.lower() in ENDINGS)
            if not found and folder.name not in ("test", *VALIDATION):
                faults.append(Fault(name, f"must hold at least one picture ({', '.join(ENDINGS)}), got none"))
            for path in found:
                read = self._picture(path)
                place = path.relative_to(folder).as_posix()
                if isinstance(read, str):
                    faults.append(Fault(place, read))
                elif pictures and read.shape != pictures[0].shape:
                    first, got = ("x".join(map(str, one.shape[:2])) for one in (pictures[0], read))
                    allowed = f"must be {first} pixels (height x width) as the first"
                    faults.append(Fault(place, f"{allowed}, got {got}; give size"))
                else:
                    pictures.append(read)
                    labels.append(label)
        if not pictures and not faults:
            faults.append(Fault("", "must hold at least one picture, got none"))
        if faults:
            raise DataError(faults, folder)
        return np.stack(pictures), np.array(labels, np.int64)

    def _picture(self, path: Path) -> NDArray[np.uint8] | str:
        """Read one file as bytes (height, width[, 3]); return the fault if it cannot be read."""
        from PIL import Image

        try:
            check_ordinary(path)
            with Image.open(path) as opened:
                opened.load()
                try:
                    picture = picture_bytes(opened, self.colours)
                except ValueError as error:
                    return str(error)
                if self.size is not None:
                    picture = picture.resize((self.size[1], self.size[0]), Image.Resampling.BILINEAR)
                return np.asarray(picture, np.uint8)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            return f"must be a picture, but cannot be read: {type(error).__name__}"


def _folders(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
