"""Folders that are searched for data files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asyncfl.base.errors import DataError, OutputError

DATA_DIR = "ASYNCFL_DATA_DIR"
"""Environment variable that names the user's data folder."""


def download_folder() -> Path:
    """Return the folder that `asyncfl data fetch` fills: `asyncfl/data` in the user's cache (`XDG_CACHE_HOME`)."""
    return Path(_downloads())


def _downloads() -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "asyncfl", "data")


@contextmanager
def writing_downloads() -> Iterator[Path]:
    """Create that folder if necessary; inside the context, failures to write raise OutputError."""
    folder = download_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except (PermissionError, FileExistsError, NotADirectoryError) as error:
        advice = "set XDG_CACHE_HOME to a folder that can"
        raise OutputError(f"{folder} cannot be written ({error.strerror}); {advice}") from None


def find(filename: str) -> Path | None:
    """Return the path of a file in the user's folder, or else among the downloads; None if neither has it.

    A folder or a dangling link of that name counts as well: reading it will report the problem instead of silently
    using stand-ins. Raises DataError if ASYNCFL_DATA_DIR names no folder, so that a typo does not lead to them either.
    """
    # called a hundred thousand times while planning an experiment, so paths are built only for a file that exists
    named = os.environ.get(DATA_DIR)
    if named and not os.path.isdir(named):
        got = f"{named!r} is not a folder; correct or unset it"
        raise DataError(f"{DATA_DIR} must name a folder with one npz file per data set, but {got}")
    places = [named, _downloads()] if named else [_downloads()]
    return next((Path(path) for folder in places if os.path.lexists(path := os.path.join(folder, filename))), None)
