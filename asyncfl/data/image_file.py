"""Images by name in npz files: `x_train, y_train, x_test, y_test`, images uint8, labels integers.

A file is first checked by the headers of its arrays, without decompressing them; all faults are reported at once. An
array is decoded on first use and kept for the next seed.
"""

from __future__ import annotations

import zipfile
import zlib
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import DataError, Fault
from asyncfl.data.catalog import CatalogEntry
from asyncfl.data.pixels import to_float
from asyncfl.data.sample_source import FiniteSource, Split

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
"""Names of the arrays of a file."""

_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError, NotImplementedError)


class ImageFileSource(FiniteSource):
    """Images of one npz file; `stands_for` is the data set that they substitute, if any.

    Raises DataError, naming the file, for a file that cannot be read, lacks an array, or has arrays of another type or
    shape than the data set.
    """

    def __init__(self, dataset: CatalogEntry, path: Path, stands_for: CatalogEntry | None = None) -> None:
        self.dataset = dataset
        self.stands_for = stands_for
        self.path = path
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "a link to nothing" if path.is_symlink() else "none"
            raise DataError(f"must be an npz file, but is {kind}; move it away, or copy the file there", path)
        self._sizes = _checked_sizes(dataset, path, stamp(path))

    @property
    def name(self) -> str:
        return self.dataset.name

    @property
    def content(self) -> str:
        """32 hexadecimal digits: the checksums (CRC-32) of the four arrays, `x_train` first, as stored in the file.
        Reading them needs no decompression, they do not depend on the compression, and they are verified whenever an
        array is read."""
        return _checksums(self.path, stamp(self.path))

    @property
    def title(self) -> str:
        return self.dataset.title

    def size(self, split: Split) -> int:
        """Return the number of images."""
        return self._sizes[split]

    @property
    def is_original(self) -> bool:
        """Whether the file has the size of the complete original."""
        return self.stands_for is None and (self._sizes["train"], self._sizes["test"]) == self.dataset.official

    @property
    def provenance(self) -> str:
        """Origin of the images in one line, for captions."""
        count = f"{self._sizes['train']} + {self._sizes['test']} images"
        if self.is_original:
            return f"{self.dataset.title}, complete ({count})"
        origin = f"{self.dataset.title}, {self.dataset.remade or 'not the complete original'} ({count})"
        return origin if self.stands_for is None else f"stand-in for {self.stands_for.title}: {origin}"

    def labels(self, split: Split, indices: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the labels (n,) of the images `indices`; None: of all."""
        key = f"y_{split}"
        labels = _array(self.path, key, stamp(self.path))
        if labels.size and not 0 <= labels.min() <= labels.max() < self.dataset.classes:
            allowed = f"must be labels 0..{self.dataset.classes - 1}"
            raise DataError([Fault(key, f"{allowed}, got {labels.min()}..{labels.max()}")], self.path)
        return (labels if indices is None else labels[indices]).astype(np.int64)

    def images(self, split: Split, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the images (n, height, width[, 3]) `indices`, 0..255."""
        taken: NDArray[np.uint8] = _array(self.path, f"x_{split}", stamp(self.path))[indices]
        return taken

    def scaled(self, images: NDArray[np.uint8], standardised: bool) -> NDArray[np.float32]:
        """Convert images to (n, channels, height, width): 0..1, or standardised by the published mean and deviation."""
        return to_float(images, self.dataset if standardised else None)


def stamp(path: Path) -> tuple[int, int]:
    """Return the modification time and size of a file, which change when it is rewritten."""
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=40)  # a federation of five domains has 20
def _array(path: Path, key: str, stamp: tuple[int, int]) -> NDArray[Any]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            array: NDArray[Any] = archive[key]
    except _BROKEN as error:
        raise DataError([Fault(key, _damaged(error))], path) from None
    array.setflags(write=False)
    return array


@lru_cache(maxsize=64)
def _checksums(path: Path, stamp: tuple[int, int]) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            return "".join(f"{archive.getinfo(f'{key}.npy').CRC:08x}" for key in ARRAYS)
    except _BROKEN as error:
        raise DataError([Fault("", _damaged(error))], path) from None


@lru_cache(maxsize=64)
def _checked_sizes(dataset: CatalogEntry, path: Path, stamp: tuple[int, int]) -> dict[Split, int]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
            faults: list[Fault] = []
            sizes: dict[Split, int] = {}
            splits: tuple[Split, ...] = ("train", "test")
            for split in splits:
                images, labels = f"x_{split}", f"y_{split}"
                shapes: dict[str, tuple[int, ...]] = {}
                for key in (images, labels):
                    if key not in names:
                        faults.append(Fault(key, f"is missing; the file has {', '.join(sorted(names)) or 'no arrays'}"))
                        continue
                    fault, shapes[key] = _check_header(archive, key, dataset)
                    faults += fault
                if faults:
                    continue
                (sizes[split], *_), (count,) = shapes[images], shapes[labels]
                if count != sizes[split]:
                    faults.append(Fault(labels, f"must have one label per image ({sizes[split]}), got {count}"))
    except _BROKEN as error:
        raise DataError([Fault("", _damaged(error))], path) from None
    if faults:
        raise DataError(faults, path)
    return sizes


def _check_header(archive: zipfile.ZipFile, key: str, dataset: CatalogEntry) -> tuple[list[Fault], tuple[int, ...]]:
    """Check one array by its header alone; return its faults and its shape."""
    try:
        with archive.open(f"{key}.npy") as member:
            shape, dtype = _header(member)
    except _BROKEN as error:
        return [Fault(key, _damaged(error))], ()
    got = f"got {dtype} {shape}"
    if key.startswith("x_"):
        if dtype != np.uint8 or shape[1:] != dataset.image_shape or shape[0] == 0:
            wanted = ", ".join(["n", *map(str, dataset.image_shape)])
            return [Fault(key, f"must be uint8 images of shape ({wanted}), n at least 1, {got}")], shape
    elif not np.issubdtype(dtype, np.integer) or len(shape) != 1:
        return [Fault(key, f"must be integer labels of shape (n,), {got}")], shape
    return [], shape


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(member)
    return shape, dtype


def _damaged(error: Exception) -> str:
    return f"cannot be read ({error or type(error).__name__}); the file is damaged, fetch or copy it again"
