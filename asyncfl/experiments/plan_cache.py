"""Values that take long to plan, kept between processes for as long as nothing that they were made from has changed.

A value counts as changed with any file of the folders that it is made from, with the code of this package, with the
versions of all installed packages, with the data sets that are on disk, and with any other file that was opened while
it was made. It lies in the user's cache folder, see `asyncfl.base.files.user_cache`, and may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import sys
import sysconfig
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import asyncfl
from asyncfl.base.files.user_cache import cache_folder, read_cached, write_cached
from asyncfl.data.catalog import DATA_DIR, download_folder

T = TypeVar("T")

PACKAGE = Path(asyncfl.__file__).parent
MOST_FILES = 10_000
MOST_BYTES = 64 * 2**20
"""Limits of what is read to recognise a change; values that depend on more are made anew each time."""


class _TooMuchError(Exception):
    """A value depends on more than is read to recognise a change."""


def kept(question: str, folders: Sequence[Path], make: Callable[[], tuple[T, bool]]) -> T:
    """Return the first part of `make()`, or that of an earlier process for which nothing has changed.

    `question`: what is made, with all arguments. `folders`: those whose files it is made from. `make` also returns
    whether the value may be kept: it must not where it depends on the absence of a file.
    """
    name = f"plan-{hashlib.sha256(repr([question, os.getcwd(), str(PACKAGE)]).encode()).hexdigest()[:32]}"
    try:
        key = _key(folders)
    except (_TooMuchError, OSError):
        return make()[0]
    if (found := read_cached(name, key)) is not None:
        with suppress(Exception):  # it is one of our own; whatever is wrong with it, a new one can be made
            files, content = pickle.loads(found)
            if _states(files) == files:
                value: T = pickle.loads(content)
                return value
    modules = set(sys.modules)
    with _opened_files() as opened:
        value, may_be_kept = make()
    specs = [getattr(sys.modules[one], "__spec__", None) for one in sys.modules.keys() - modules]
    imported = [spec.origin for spec in specs if spec is not None and spec.has_location and spec.origin]
    # Modules of the user's own may import others later, and Python reads what it has compiled instead of them.
    if may_be_kept and not _uncovered(imported, folders):
        with suppress(_TooMuchError, OSError, pickle.PicklingError, TypeError, AttributeError):
            states = _states(_bounded(_uncovered(opened, folders)))
            # A file that was changed meanwhile may have been read before or after that.
            if _key(folders) == key:
                write_cached(name, pickle.dumps((states, pickle.dumps(value))), key)
    return value


def _key(folders: Sequence[Path]) -> bytes:
    """Return a digest of all that any value depends on."""
    installed = sorted(entry.name for entry in os.scandir(sysconfig.get_path("purelib")) if "info" in entry.name)
    settings = {name: value for name, value in os.environ.items() if name.startswith(("ASYNCFL_", "PYTHONPATH"))}
    state = [
        *(sys.version, platform.platform(), installed, sorted(settings.items())),
        *([(str(folder), _contents(folder)) for folder in (PACKAGE, *folders)]),
        *([(folder, _listing(folder)) for folder in _data_folders()]),
    ]
    return hashlib.sha256(repr(state).encode()).digest()


def _contents(folder: Path) -> list[tuple[str, str]]:
    """Return name and digest of all files below a folder, without what Python has compiled."""
    found: list[tuple[str, str]] = []
    total = 0
    for above, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(above, name)
            total += os.stat(path).st_size if os.path.isfile(path) else 0
            if len(found) >= MOST_FILES or total > MOST_BYTES:
                raise _TooMuchError
            found.append((path, _digest(path) or ""))
    return found


def _listing(folder: str) -> list[tuple[str, int, int]] | None:
    """Return the entries of a folder with their sizes and times; None where there is no such folder."""
    try:
        entries = [(entry.name, os.stat(entry.path)) for entry in os.scandir(folder)]
    except OSError:
        return None
    return sorted((name, about.st_size, about.st_mtime_ns) for name, about in entries)


def _data_folders() -> list[str]:
    return [os.path.realpath(folder) for folder in (os.environ.get(DATA_DIR), download_folder()) if folder]


def _states(paths: Iterable[str]) -> dict[str, Any]:
    """Return the digest of each file, and the names beside it: it may be read only because another is there."""
    digests = {path: _digest(path) for path in paths}
    return {path: digest and (digest, sorted(os.listdir(os.path.dirname(path)))) for path, digest in digests.items()}


def _digest(path: str) -> str | None:
    """Return the digest of an ordinary file; None where there is none that can be read."""
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


# --- files that were opened --------------------------------------------------------------------------------------


def _uncovered(paths: Iterable[str], folders: Sequence[Path]) -> list[str]:
    """Return the paths of files that the key leaves out."""
    known = [str(PACKAGE), sys.prefix, sys.base_prefix, "/proc", "/sys", "/dev", "/etc", *_data_folders()]
    known += [str(folder) for folder in (*folders, cache_folder() or PACKAGE)]
    covered = tuple(f"{os.path.realpath(folder)}{os.sep}" for folder in known)
    return sorted(path for path in map(os.path.realpath, paths) if not path.startswith(covered))


def _bounded(paths: Sequence[str]) -> Sequence[str]:
    """Return `paths`; raise _TooMuchError where their files are too large or too many to be read at each call."""
    if len(paths) > MOST_FILES or sum(os.path.getsize(path) for path in paths if os.path.isfile(path)) > MOST_BYTES:
        raise _TooMuchError
    return paths


_watchers: list[set[str]] = []
_hooked = False


@contextmanager
def _opened_files() -> Iterator[set[str]]:
    """Collect the paths of all files that Python opens to read in this context."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_note)  # for ever: Python has no way to remove it
        _hooked = True
    opened: set[str] = set()
    _watchers.append(opened)
    try:
        yield opened
    finally:
        _watchers.remove(opened)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _watchers and event == "open":
        path, _, flags = arguments
        # For tracebacks Python reads the source of the code that runs, which is none of the value's.
        if sys._getframe(1).f_code.co_filename == tokenize.__file__:
            return
        if isinstance(path, str | bytes | os.PathLike) and not (flags or 0) & (os.O_WRONLY | os.O_RDWR):
            for opened in _watchers:
                opened.add(os.path.abspath(os.fsdecode(path)))
