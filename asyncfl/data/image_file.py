"""Images by name in npz files: `x_train, y_train, x_test, y_test`, images uint8, labels integers.

A file is first checked by the headers of its arrays, without decompressing them; all faults are reported at once. An
array is decoded on first use and kept for the next seed.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import DataError, Fault
from asyncfl.data.catalog import CatalogEntry
from asyncfl.data.sample_source import SampleSource, Split

COMMON_SIDE = 28
"""Height and width of the images in a federation of several domains."""
_ARRAYS = ("x_train", "y_train", "x_test", "y_test")
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, KeyError, NotImplementedError)
"""Errors of reading a damaged npz file."""


def to_float(
    images: NDArray[np.uint8], scale: tuple[tuple[float, ...], tuple[float, ...]] | None
) -> NDArray[np.float32]:
    """Convert images (n, height, width[, channels]) to (n, channels, height, width) float32, C-contiguous.

    The values are 0..1, or standardised by `scale`: mean and deviation in units of 0..1, one number per channel.
    """
    if images.ndim == 3:
        images = images[..., None]
    planes = np.empty((len(images), images.shape[3], *images.shape[1:3]), np.float32)
    for channel in range(images.shape[3]):
        mean, std = (0.0, 1.0)
        if scale is not None:  # a grey set in a federation of domains has three channels but one mean
            mean, std = (values[channel % len(values)] for values in scale)
        plane = planes[:, channel]
        np.multiply(images[..., channel], np.float32(1 / (255 * std)), out=plane, dtype=np.float32)
        plane -= np.float32(mean / std)
    return planes


def to_common_shape(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert images (n, height, width[, 3]) uint8 to (n, 28, 28, 3) uint8.

    Grey images get three equal channels; other sizes are resampled with a triangle filter.
    """
    grey = images.ndim == 3
    if grey:
        images = images[..., None]
    if images.shape[1:3] != (COMMON_SIDE, COMMON_SIDE):
        down, across = _resampling(images.shape[1]), _resampling(images.shape[2])
        rows = np.tensordot(images.astype(np.float32), across, axes=(2, 1))
        resampled = np.tensordot(rows, down, axes=(1, 1))  # (n, channels, width, height)
        images = np.rint(resampled).clip(0, 255).astype(np.uint8).transpose(0, 3, 2, 1)
    return np.repeat(images, 3, axis=3) if grey else images


def _resampling(side: int) -> NDArray[np.float32]:
    """Return the weights (28, side) of the old pixels in each new one."""
    step = side / COMMON_SIDE
    centres = (np.arange(COMMON_SIDE) + 0.5) * step - 0.5
    distance = np.abs(np.arange(side) - centres[:, None]) / max(step, 1.0)
    weights = np.maximum(0.0, 1.0 - distance)
    shares: NDArray[np.float32] = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    return shares


def read_npz(path: Path, needed: Sequence[str], only_these: bool = True) -> dict[str, NDArray[Any]]:
    """Read the `needed` arrays of an npz file, or all, by name; pickled objects are refused.

    Raises DataError, naming the file, for a file that is missing, damaged or another one, and for missing arrays.
    """
    arrays: dict[str, NDArray[Any]] = {}
    name = ""
    try:
        if not zipfile.is_zipfile(path) and path.is_file():
            raise DataError(f"must be an npz file with arrays {' and '.join(needed)}, but it is not an npz file", path)
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                if not only_these or name in needed:
                    arrays[name] = archive[name]
            there = ", ".join(sorted(archive.files)) or "no arrays"
    except _BROKEN as error:
        raise DataError([Fault(name, f"cannot be read: {error or type(error).__name__}")], path) from None
    if missing := [name for name in needed if name not in arrays]:
        raise DataError((Fault(name, f"is missing; the file has {there}") for name in missing), path)
    return arrays


class ImageFileSource(SampleSource):
    """Images of one npz file; `stands_for` is the data set that they substitute, if any.

    Raises DataError, naming the file, for a file that cannot be read, lacks an array, or has arrays of another type or
    shape than the data set.
    """

    def __init__(self, dataset: CatalogEntry, path: Path, stands_for: CatalogEntry | None = None) -> None:
        self.dataset, self.stands_for, self.path = dataset, stands_for, path
        self.name, self.title = dataset.name, dataset.title
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "a link to nothing" if path.is_symlink() else "none"
            raise DataError(f"must be an npz file, but is {kind}; move it away, or copy the file there", path)
        self._sizes = _checked_sizes(dataset, path, _stamp(path))
        self.is_original = stands_for is None and tuple(self._sizes.values()) == dataset.official

    @property
    def content(self) -> str:
        """32 hexadecimal digits: the checksums (CRC-32) of the four arrays, `x_train` first, as stored in the file.
        Reading them needs no decompression, they do not depend on the compression, and they are verified whenever an
        array is read."""
        return _checksums(self.path, _stamp(self.path))

    def size(self, split: Split) -> int:
        return self._sizes[split]

    @property
    def provenance(self) -> str:
        count = f"{self._sizes['train']} + {self._sizes['test']} images"
        if self.is_original:
            return f"{self.title}, complete ({count})"
        origin = f"{self.title}, {self.dataset.remade or 'not the complete original'} ({count})"
        return origin if self.stands_for is None else f"stand-in for {self.stands_for.title}: {origin}"

    def labels(self, split: Split, indices: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        key = f"y_{split}"
        labels = _array(self.path, key, _stamp(self.path))
        if labels.size and not 0 <= labels.min() <= labels.max() < self.dataset.classes:
            allowed = f"must be labels 0..{self.dataset.classes - 1}"
            raise DataError([Fault(key, f"{allowed}, got {labels.min()}..{labels.max()}")], self.path)
        return (labels if indices is None else labels[indices]).astype(np.int64)

    def images(self, split: Split, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        taken: NDArray[np.uint8] = _array(self.path, f"x_{split}", _stamp(self.path))[indices]
        return taken

    def scaled(self, images: NDArray[np.uint8], standardised: bool) -> NDArray[np.float32]:
        return to_float(images, self.dataset.scale if standardised else None)


def _stamp(path: Path) -> tuple[int, int]:
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
            return "".join(f"{archive.getinfo(f'{key}.npy').CRC:08x}" for key in _ARRAYS)
    except _BROKEN as error:
        raise DataError([Fault("", _damaged(error))], path) from None


@lru_cache(maxsize=64)
def _checked_sizes(dataset: CatalogEntry, path: Path, stamp: tuple[int, int]) -> dict[Split, int]:
    faults: list[Fault] = []
    shapes: dict[str, tuple[int, ...]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
            for key in _ARRAYS:
                if key not in names:
                    faults.append(Fault(key, f"is missing; the file has {', '.join(sorted(names)) or 'no arrays'}"))
                    continue
                shapes[key], fault = _header(archive, key, dataset)
                faults += [Fault(key, fault)] if fault else []
    except _BROKEN as error:
        raise DataError([Fault("", _damaged(error))], path) from None
    sizes: dict[Split, int] = {split: shapes[f"x_{split}"][0] for split in get_args(Split)} if not faults else {}
    for split, size in sizes.items():
        if (count := shapes[f"y_{split}"][0]) != size:
            faults.append(Fault(f"y_{split}", f"must have one label per image ({size}), got {count}"))
    if faults:
        raise DataError(faults, path)
    return sizes


def _header(archive: zipfile.ZipFile, key: str, dataset: CatalogEntry) -> tuple[tuple[int, ...], str]:
    """Read one array's header alone; return its shape and its fault, if any."""
    try:
        with archive.open(f"{key}.npy") as member:
            version = np.lib.format.read_magic(member)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(member)
    except _BROKEN as error:
        return (), _damaged(error)
    got = f"got {dtype} {shape}"
    if key.startswith("x_"):
        if dtype != np.uint8 or shape[1:] != dataset.image_shape or shape[0] == 0:
            wanted = ", ".join(["n", *map(str, dataset.image_shape)])
            return shape, f"must be uint8 images of shape ({wanted}), n at least 1, {got}"
    elif not np.issubdtype(dtype, np.integer) or len(shape) != 1:
        return shape, f"must be integer labels of shape (n,), {got}"
    return shape, ""


def _damaged(error: Exception) -> str:
    return f"cannot be read ({error or type(error).__name__}); the file is damaged, fetch or copy it again"
