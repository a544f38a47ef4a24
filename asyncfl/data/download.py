"""Download of data sets through torchvision into the npz files that everything else reads."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.catalog import CATALOG
from asyncfl.data.folder import DATA_DIR, find, writing_downloads
from asyncfl.data.natural.catalog import NATURAL
from asyncfl.data.natural.fetch import fetch_natural
from asyncfl.errors import DataError, Fault
from asyncfl.files.whole import whole_file
from asyncfl.torchvision_parts import torchvision_part

FETCHABLE = tuple(name for name, dataset in CATALOG.items() if dataset.torchvision)
"""Names that can be downloaded."""


def fetch(names: Iterable[str] = FETCHABLE) -> list[Path]:
    """Paths of the npz files of the data sets `names`, of which those with owners come from the hub or an archive; what
    is on disk already is left as it is.

    Raises DataError for names that cannot be downloaded (all of them at once) and for downloads that fail,
    OutputError where the folder cannot be written.
    """
    names = list(names)
    faults = [
        Fault(name, _why_not(name)) for name in names if name not in (*FETCHABLE, *NATURAL) and not _on_disk(name)
    ]
    if faults:
        raise DataError(faults)
    return [_fetched(name) for name in names]


def _fetched(name: str) -> Path:
    if name in NATURAL:
        return find(NATURAL[name].filename) or fetch_natural(NATURAL[name])
    return find(CATALOG[name].filename) or _download(name)


def _on_disk(name: str) -> bool:
    return name in CATALOG and find(CATALOG[name].filename) is not None


def _why_not(name: str) -> str:
    if name not in CATALOG:
        return f"is no data set that is fetched; known are {', '.join((*CATALOG, *NATURAL))}"
    return (
        f"cannot be downloaded through torchvision (those that can: {', '.join(FETCHABLE)}); "
        f"put {name}.npz into the folder that {DATA_DIR} names, or take source: embedded"
    )


def _download(name: str) -> Path:
    dataset = CATALOG[name]
    with writing_downloads() as folder:
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}.") as scratch:
            arrays: dict[str, Any] = {}
            for split in ("train", "test"):
                arrays[f"x_{split}"], arrays[f"y_{split}"] = _one_split(dataset.torchvision, split, scratch)
        with whole_file(folder / dataset.filename) as part, part.open("wb") as file:
            np.savez_compressed(file, **arrays)
    return folder / dataset.filename


def _one_split(class_name: str, split: str, scratch: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    maker = getattr(torchvision_datasets(), class_name)
    which: dict[str, Any] = {"split": split} if class_name == "SVHN" else {"train": split == "train"}
    if class_name == "EMNIST":
        which["split"] = "balanced"  # 47 classes: letters that look alike in both cases are one
    try:
        loaded = maker(scratch, download=True, **which)
    except PermissionError:
        raise
    except Exception as error:  # torchvision's downloads fail in many ways, most of them the network's
        raise DataError(
            f"{class_name} could not be downloaded ({_first_line(error)}); check the "
            f"network, or put the npz file into the folder that {DATA_DIR} names, or take source: embedded"
        ) from None
    images = np.asarray(loaded.data, dtype=np.uint8)
    labels = np.asarray(loaded.labels if class_name == "SVHN" else loaded.targets, dtype=np.uint8)
    if class_name == "SVHN":
        images = images.transpose(0, 2, 3, 1)
    if class_name == "EMNIST":
        images = images.transpose(0, 2, 1)  # its files hold columns first
    return images, labels


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def torchvision_datasets() -> Any:
    """Module `torchvision.datasets`."""
    return torchvision_part("datasets")
