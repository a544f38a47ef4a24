"""Download of data sets with owners from the Hugging Face hub."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncfl.base.errors import DataError
from asyncfl.data.natural.catalog import CHARACTERS, WINDOW, NaturalSet


def download_from_hub(about: NaturalSet) -> dict[str, Any]:
    """Download the arrays of a data set with `datasets` (an extra), which verifies them.

    Raises DataError if that package is missing or the download is incomplete, and the errors of the download itself.
    """
    try:
        import datasets
    except ImportError:
        message = f"{about.title} is downloaded by the package datasets, which is not installed"
        raise DataError(f"{message}; pip install 'asyncfl[data]'") from None
    rows = datasets.load_dataset(about.hub, split="train").with_format("numpy")
    if len(rows) != about.official:
        raise DataError(f"{about.title} must have {about.official} samples, got {len(rows)}; fetch it again")
    return femnist_arrays(rows) if about.name == "femnist" else shakespeare_arrays(rows)


def femnist_arrays(rows: Any) -> dict[str, Any]:
    """Convert FEMNIST's rows (image, writer_id, character) to arrays, with bright strokes on black as in MNIST."""
    pictures = np.stack([np.asarray(row["image"], np.uint8).reshape(28, 28) for row in rows])
    return {
        "x_train": 255 - pictures,
        "y_train": np.array([int(row["character"]) for row in rows], np.uint8),
        "writer_train": np.array([str(row["writer_id"]) for row in rows]),
    }


def shakespeare_arrays(rows: Any) -> dict[str, Any]:
    """Convert Shakespeare's rows (x, y, character_id) to arrays: the numbers of 80 characters, and of the next one."""
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
