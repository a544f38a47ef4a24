"""Where data files are looked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asyncfl.errors import DataError, OutputError

DATA_DIR = "ASYNCFL_DATA_DIR"
"""Environment variable that names the user's data folder."""


def download_folder() -> Path:
    """Folder that `asyncfl data fetch` fills: `asyncfl/data` in the user's cache (`XDG_CACHE_HOME`)."""
    return Path(_fetched())


def _fetched() -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "asyncfl", "data")


@contextmanager
def writing_downloads() -> Iterator[Path]:
    """That folder, made where it is missing; inside it a place that cannot be written raises OutputError."""
    folder = download_folder()
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
    return [Path(folder) for folder in _folders()]


def _folders() -> list[str]:
    named = os.environ.get(DATA_DIR)
    if not named:
        return [_fetched()]
    if not os.path.isdir(named):
        raise DataError(
            f"{DATA_DIR} must name a folder with one npz file per data set, got {named!r}, which is none; "
            "correct or unset it"
        )
    return [named, _fetched()]


def find(filename: str) -> Path | None:
    """Path of the file in the first folder that has it, None if none has.

    A folder of that name counts too, and a link to nothing: whoever reads it says what is wrong, so that stand-ins do
    not take its place in silence.
    """
    # asked a hundred thousand times while a plan is made, hence no paths before there is something to return
    return next((Path(path) for folder in _folders() if os.path.lexists(path := os.path.join(folder, filename))), None)
