"""CSV tables of an experiment: written byte for byte the same each time, whole or not at all."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.files.atomic import atomic_file

if TYPE_CHECKING:
    import pandas as pd

MEMBERSHIP = "membership.csv"
"""Results of membership inference, one row per axis values, seed and attack: `audit.membership.FOUND`."""
PICTURES = "pictures.csv"
"""Images that were reconstructed from uploads, one row each."""


def plain(value: Any) -> Any:
    """Return an axis value as a table cell: numbers and names unchanged, everything else as JSON text."""
    if isinstance(value, bool) or value is None or isinstance(value, list | tuple | dict):
        return json.dumps(value, sort_keys=True)
    return value


def as_written(number: float) -> float:
    """Return what a table holds of a number."""
    return float(FORMAT % number)


FORMAT = "%.10g"
"""Ten digits of a number, in tables."""


def write_csv(frame: pd.DataFrame, path: str | Path) -> None:
    with atomic_file(path) as part:
        frame.to_csv(part, index=False, float_format=FORMAT, lineterminator="\n")


TEXTS = ("run", "commit", "commits", "asked", "sentence", "paper", "source", "claim", "check")
"""Columns that are not numbers, though 765121e0 and the sentence 4.10 look like one."""


def is_table(path: str | Path) -> bool:
    """Tell whether `read_csv` finds a table: the file, or its `.gz`."""
    return Path(path).is_file() or Path(f"{path}.gz").is_file()


def read_csv(path: str | Path) -> pd.DataFrame:
    """Read a table that `write_csv` wrote, or its `.gz` where only that is there; an empty table where it had no
    columns."""
    import pandas as pd

    packed_file = Path(f"{path}.gz")
    try:
        return pd.read_csv(
            packed_file if packed_file.is_file() and not Path(path).is_file() else path,
            keep_default_na=False,
            na_values=[""],
            dtype=dict.fromkeys(TEXTS, str),
        )
    except pd.errors.EmptyDataError:
        return pd.DataFrame()


def packed(image: NDArray[np.float32]) -> str:
    """Return an image, pixels 0..1, as text: 256 levels, base64."""
    return base64.b64encode(np.rint(255 * image).astype(np.uint8).tobytes()).decode("ascii")


def unpacked(text: str, shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """Return the image (channels, height, width) that `packed` wrote, pixels 0..1."""
    return (np.frombuffer(base64.b64decode(text), np.uint8).reshape(shape) / 255).astype(np.float32)
