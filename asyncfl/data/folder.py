"""Where data files are looked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asyncfl.errors import DataError, OutputError

DATA_DIR = "ASYNCFL_DATA_DIR"
"""Environment variable that names the user's data folder."""


def fetched_folder() -> Path:
    """Folder that `asyncfl data fetch` fills: `asyncfl/data` in the user's cache (`XDG_CACHE_HOME`)."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "asyncfl" / "data"


@contextmanager
def filling_fetched() -> Iterator[Path]:
    """That folder, made where it is missing; inside it a place that cannot be written raises OutputError."""
    folder = fetched_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except (PermissionError, FileExistsError, NotADirectoryError) as error:
        raise OutputError(
            f"{folder} cannot be written ({error.strerror}); set XDG_CACHE_HOME to a folder that can"
        ) from None


def folders() -> list[Path]:
    """Folders to look in, the first one first.

    Raises DataError if ASYNCFL_DATA_DIR names no folder: a misspelt one must not lead to stand-in data in
    silence.
    """
    named = os.environ.get(DATA_DIR)
    if not named:
        return [fetched_folder()]
    if not Path(named).is_dir():
        raise DataError(
            f"{DATA_DIR} must name a folder with one npz file per data set, got {named!r}, which is none; "
            "correct or unset it"
        )
    return [Path(named), fetched_folder()]


def find(filename: str) -> Path | None:
    """Path of the file in the first folder that has it, None if none has.

    A folder of that name counts too, and a link to nothing: whoever reads it says what is wrong, so that stand-ins do
    not take its place in silence.
    """
    return next((folder / filename for folder in folders() if os.path.lexists(folder / filename)), None)
