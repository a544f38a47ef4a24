"""Download of data sets with owners from the Hugging Face hub into the npz files that everything else reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from asyncfl.data.folder import DATA_DIR, filling_fetched
from asyncfl.data.natural.catalog import CHARACTERS, WINDOW, NaturalSet
from asyncfl.errors import DataError, shortened
from asyncfl.files.whole import whole_file


def fetch_natural(about: NaturalSet) -> Path:
    """Path of the npz file of a data set that `datasets` (an extra) downloads and checks.

    Raises DataError where that package is missing, the download fails or is not whole, OutputError where the folder
    cannot be written.
    """
    way_out = f"put {about.filename} into the folder that {DATA_DIR} names, or take source: embedded"
    try:
        import datasets
    except ImportError:
        message = f"{about.title} is downloaded by the package datasets, which is not installed"
        raise DataError(f"{message}; pip install 'asyncfl[data]', {way_out}") from None
    try:
        rows = datasets.load_dataset(about.hub, split="train").with_format("numpy")
    except Exception as error:  # the hub's client fails in many ways, most of them the network's
        said = shortened(" ".join(f"{type(error).__name__}: {error}".split()), 200)
        raise DataError(f"{about.title} could not be downloaded ({said}); check the network, {way_out}") from None
    if len(rows) != about.official:
        raise DataError(f"{about.title} must have {about.official} samples, got {len(rows)}; fetch it again, {way_out}")
    arrays = pictures_of(rows) if about.name == "femnist" else windows_of(rows)
    with filling_fetched() as folder, whole_file(folder / about.filename) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return folder / about.filename


def pictures_of(rows: Any) -> dict[str, Any]:
    """Arrays of FEMNIST's rows (image, writer_id, character): bright strokes on black, as MNIST has them."""
    pictures = np.stack([np.asarray(row["image"], np.uint8).reshape(28, 28) for row in rows])
    return {
        "x_train": 255 - pictures,
        "y_train": np.array([int(row["character"]) for row in rows], np.uint8),
        "writer_train": np.array([str(row["writer_id"]) for row in rows]),
    }


def windows_of(rows: Any) -> dict[str, Any]:
    """Arrays of Shakespeare's rows (x, y, character_id): the numbers of 80 characters, and of the next."""
    known = {character: number for number, character in enumerate(CHARACTERS)}
    space = known[" "]
    windows = np.full((len(rows), WINDOW), space, np.uint8)
    following = np.empty(len(rows), np.uint8)
    roles = []
    for number, row in enumerate(rows):
        text = str(row["x"])[-WINDOW:]
        windows[number, WINDOW - len(text) :] = [known.get(character, space) for character in text]
        following[number] = known.get(str(row["y"]), space)
        roles.append(str(row["character_id"]))
    return {"x_train": windows, "y_train": following, "role_train": np.array(roles)}
