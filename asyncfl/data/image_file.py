"""Reading of npz files; images by name in files of `x_train, y_train, x_test, y_test`, images uint8, labels integers.

A file of images is first checked by the headers of its arrays, without decompressing them; all faults are reported at
once. An array is decoded on first use and kept for the next seed.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import DataError, Fault
from asyncfl.base.files.reading import check_ordinary
from asyncfl.data.catalog import CatalogEntry
from asyncfl.data.sample_source import Array, Ints, SampleSource, Split

_ARRAYS = ("x_train", "y_train", "x_test", "y_test")
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, KeyError, NotImplementedError)
"""Errors of reading a damaged npz file."""


def read_npz(
    path: Path, needed: Sequence[str], only_these: bool = True, other_names: Mapping[str, str] | None = None
) -> dict[str, Array]:
    """Read the `needed` arrays of an npz file, or all, by name; pickled objects are refused.

    other_names: name in the file -> the name that it stands for.

    Raises DataError, naming the file, for a file that is missing, damaged or another one, and for missing arrays.
    """
    arrays: dict[str, Array] = {}
    name = ""
    try:
        check_ordinary(path)
        if not zipfile.is_zipfile(path):
            raise DataError(f"must be an npz file with arrays {' and '.join(needed)}, but it is not an npz file", path)
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                if not only_these or name in needed:
                    arrays[(other_names or {}).get(name, name)] = archive[name]
            there = ", ".join(sorted(archive.files)) or "no arrays"
    except _BROKEN as error:
        raise DataError([Fault(name, f"cannot be read: {error or type(error).__name__}")], path) from None
    if missing := [name for name in needed if name not in arrays]:
        raise DataError((Fault(name, f"is missing; the file has {there}") for name in missing), path)
    return arrays


class ImageFile(SampleSource):
    """Images of one npz file; `stands_for` is the data set that they substitute, if any.

    Raises DataError, naming the file, for a file that cannot be read, lacks an array, or has arrays of another type or
    shape than the data set.
    """

    def __init__(self, dataset: CatalogEntry, path: Path, stands_for: CatalogEntry | None = None) -> None:
        self.dataset, self.path = dataset, path
        self.name, self.title, self.scale = dataset.name, dataset.title, dataset.scale
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "a link to nothing" if path.is_symlink() else "no ordinary file"
            raise DataError(f"must be an npz file, but is {kind}; move it away, or copy the file there", path)
        self._sizes, self.content = _headers(dataset, path, _stamp(path))
        self.is_original = stands_for is None and tuple(self._sizes.values()) == dataset.official
        kind = "complete" if self.is_original else dataset.remade or "not the complete original"
        of = f"stand-in for {stands_for.title}: " if stands_for else ""
        self.provenance = f"{of}{self.title}, {kind} ({self._sizes['train']} + {self._sizes['test']} images)"

    content: str
    """32 hexadecimal digits: the checksums (CRC-32) of the four arrays, `x_train` first, as stored in the file. Reading
    them needs no decompression, they do not depend on the compression, and are verified whenever an array is read."""

    def size(self, split: Split) -> int:
        return self._sizes[split]

    def labels(self, split: Split, indices: Ints) -> Ints:
        key = f"y_{split}"
        labels = _array(self.path, key, _stamp(self.path))
        if labels.size and not 0 <= labels.min() <= labels.max() < self.dataset.classes:
            allowed = f"must be labels 0..{self.dataset.classes - 1}"
            raise DataError([Fault(key, f"{allowed}, got {labels.min()}..{labels.max()}")], self.path)
        return labels[indices].astype(np.int64)

    def images(self, split: Split, indices: Ints) -> NDArray[np.uint8]:
        taken: NDArray[np.uint8] = _array(self.path, f"x_{split}", _stamp(self.path))[indices]
        return taken


def _stamp(path: Path) -> tuple[int, int]:
    """Return the modification time and size of a file, which change when it is rewritten."""
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=40)  # a federation of five domains has 20
def _array(path: Path, key: str, stamp: tuple[int, int]) -> Array:
    return read_npz(path, (key,))[key]


@lru_cache(maxsize=64)
def _headers(dataset: CatalogEntry, path: Path, stamp: tuple[int, int]) -> tuple[dict[Split, int], str]:
    """Check the headers of the four arrays; return the number of images of each split, and the checksums."""
    faults: list[Fault] = []
    shapes: dict[str, tuple[int, ...]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
            for key in _ARRAYS:
                if key not in names:
                    faults.append(Fault(key, f"is missing; the file has {', '.join(sorted(names)) or 'no arrays'}"))
                    continue
                try:
                    shapes[key], dtype = _header(archive, key)
                except _BROKEN as error:
                    faults.append(Fault(key, _damaged(error)))
                    continue
                faults += [Fault(key, fault) for fault in [misfit(dataset, key, shapes[key], dtype)] if fault]
            sums = "" if faults else "".join(f"{archive.getinfo(f'{key}.npy').CRC:08x}" for key in _ARRAYS)
    except _BROKEN as error:
        raise DataError([Fault("", _damaged(error))], path) from None
    sizes: dict[Split, int] = {} if faults else {"train": shapes["x_train"][0], "test": shapes["x_test"][0]}
    for split, size in sizes.items():
        if (count := shapes[f"y_{split}"][0]) != size:
            faults.append(Fault(f"y_{split}", f"must have one label per image ({size}), got {count}"))
    if faults:
        raise DataError(faults, path)
    return sizes, sums


def _header(archive: zipfile.ZipFile, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read shape and type of one array."""
    with archive.open(f"{key}.npy") as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
    return shape, dtype


def misfit(dataset: CatalogEntry, key: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """Describe how an array differs from those of the data set; "" if it fits."""
    if key.startswith("y_"):
        fits, wanted = np.issubdtype(dtype, np.integer) and len(shape) == 1, "integer labels of shape (n,)"
    else:
        fits = dtype == np.uint8 and shape[1:] == dataset.image_shape and shape[0] > 0
        wanted = f"uint8 images of shape ({', '.join(['n', *map(str, dataset.image_shape)])}), n at least 1"
    return "" if fits else f"must be {wanted}, got {dtype} {shape}"


def _damaged(error: Exception) -> str:
    return f"cannot be read ({error or type(error).__name__}); the file is damaged, fetch or copy it again"
