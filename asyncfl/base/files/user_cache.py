"""Bytes that are expensive to make, kept in the user's cache folder between processes.

The folder is `asyncfl` in `$XDG_CACHE_HOME`, else in `~/.cache`. Only speed depends on it: bytes that are missing,
damaged or not the user's own are made again, and where nothing can be written, they are made each time.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

DIGEST = hashlib.sha256().digest_size


def cache_folder() -> Path | None:
    """Return the folder, which may not exist; None where the user has no home."""
    # By the specification of XDG, relative paths are ignored.
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given / "asyncfl"
    try:
        return Path.home() / ".cache" / "asyncfl"
    except RuntimeError:
        return None


def cached_bytes(name: str, make: Callable[[], bytes]) -> bytes:
    """Return the bytes that the file `name` holds, or else `make()`, for which the file is then written.

    `name`: must change with everything on which the bytes depend.
    """
    if (found := read_cached(name)) is not None:
        return found
    made = make()
    write_cached(name, made)
    return made


def read_cached(name: str, key: bytes = b"") -> bytes | None:
    """Return the bytes that an undamaged file `name` of this user holds for `key`; None if there are none."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        # Without waiting for the writer of a named pipe.
        with open(os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
                return None
            digest, found = file.read(DIGEST), file.read()
    except OSError:
        return None
    return found if hashlib.sha256(key + found).digest() == digest else None


def write_cached(name: str, made: bytes, key: bytes = b"") -> None:
    """Keep bytes in the file `name`, where that is possible, in place of those that it holds.

    `key`: must change with everything on which the bytes depend, and be of one length.
    """
    folder = cache_folder()
    if folder is not None:
        with suppress(OSError):
            _write(folder / name, hashlib.sha256(key + made).digest() + made)


def _write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, whoever else writes it. A link of its name is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(number, "wb") as file:
            file.write(content)
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        raise
