"""Download of data sets through torchvision into npz files; two data sets are made by their recipes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import DataError, Fault
from asyncfl.base.files.atomic import atomic_file
from asyncfl.base.torchvision_parts import torchvision_part
from asyncfl.data.catalog import CATALOG
from asyncfl.data.folder import DATA_DIR, find, writing_downloads
from asyncfl.data.natural.catalog import NATURAL
from asyncfl.data.natural.fetch import fetch_natural
from asyncfl.data.recipes import REMADE, make_mnist_m, make_synth_digits
from asyncfl.data.sample_source import Split

FETCHABLE = tuple(name for name, dataset in CATALOG.items() if dataset.torchvision)
"""Names of the image data sets that can be downloaded."""


def fetch(names: Iterable[str] = FETCHABLE) -> list[Path]:
    """Download the data sets `names` that are not on disk yet, or make them (`REMADE`), and return the paths of all
    their npz files.

    Raises DataError for names that cannot be downloaded (all of them at once) and for failed downloads, OutputError if
    the folder cannot be written.
    """
    names = list(names)
    faults = [
        Fault(name, _why_not(name))
        for name in names
        if name not in (*FETCHABLE, *REMADE, *NATURAL) and not _on_disk(name)
    ]
    if faults:
        raise DataError(faults)
    return [_find_or_download(name) for name in names]


def _find_or_download(name: str) -> Path:
    if name in NATURAL:
        return find(NATURAL[name].filename) or fetch_natural(NATURAL[name])
    return find(CATALOG[name].filename) or _download(name)


def _on_disk(name: str) -> bool:
    return name in CATALOG and find(CATALOG[name].filename) is not None


def _why_not(name: str) -> str:
    if name not in CATALOG:
        return f"is not a data set that can be downloaded; known are {', '.join((*CATALOG, *NATURAL))}"
    return (
        f"cannot be downloaded through torchvision (those that can: {', '.join(FETCHABLE)}); "
        f"put {name}.npz into the folder that {DATA_DIR} names, or take source: embedded"
    )


def _download(name: str) -> Path:
    dataset = CATALOG[name]
    mnist = _find_or_download("mnist") if name == "mnist_m" else None
    splits: tuple[Split, ...] = ("train", "test")
    with writing_downloads() as folder:
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}.") as scratch:
            arrays: dict[str, Any] = {}
            for split in splits:
                if mnist is not None:
                    made = make_mnist_m(split, mnist)
                elif name in REMADE:
                    made = make_synth_digits(split)
                else:
                    made = _one_split(dataset.torchvision, split, scratch)
                arrays[f"x_{split}"], arrays[f"y_{split}"] = made
        with atomic_file(folder / dataset.filename) as part, part.open("wb") as file:
            np.savez_compressed(file, **arrays)
    return folder / dataset.filename


def _one_split(class_name: str, split: str, scratch: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    maker = getattr(torchvision_datasets(), class_name)
    which: dict[str, Any] = {"split": split} if class_name == "SVHN" else {"train": split == "train"}
    if class_name == "EMNIST":
        which["split"] = "balanced"  # 47 classes: letters of the same shape in both cases count as one
    try:
        loaded = maker(scratch, download=True, **which)
    except PermissionError:
        raise
    except Exception as error:  # downloads raise many kinds of errors
        raise DataError(
            f"{class_name} could not be downloaded ({_first_line(error)}); check the "
            f"network, or put the npz file into the folder that {DATA_DIR} names, or take source: embedded"
        ) from None
    images = np.asarray(loaded.data, dtype=np.uint8)
    labels = np.asarray(loaded.labels if class_name == "SVHN" else loaded.targets, dtype=np.uint8)
    if class_name == "SVHN":
        images = images.transpose(0, 2, 3, 1)
    if class_name == "EMNIST":
        images = images.transpose(0, 2, 1)  # its files store columns first
    return images, labels


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def torchvision_datasets() -> Any:
    """Import `torchvision.datasets`."""
    return torchvision_part("datasets")
