"""Atomic writes: a file is written completely or not at all."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from asyncfl.base.errors import OutputError, system_says
from asyncfl.base.files.reading import check_ordinary


@contextmanager
def atomic_file(path: str | Path, ours: Callable[[bytes], bool] | None = None, follow: bool = True) -> Iterator[Path]:
    """Return a temporary path beside `path` to write to; it is renamed to `path` when the context ends normally.

    Until then, and after an exception, `path` is unchanged. A link is followed and kept; with `follow` false, as for
    files whose names the program has chosen, it is replaced. `ours` decides from the first bytes of an existing file
    whether it may be replaced (None: always). Raises OutputError where the file cannot be written.
    """
    # Not Path.resolve, which raises its own error for circular links.
    target = Path(os.path.realpath(path)) if follow else Path(os.path.realpath(Path(path).parent), Path(path).name)
    try:
        if target.is_symlink() and not follow:
            target.unlink()
        if target.is_symlink():
            raise OutputError(f"cannot write {path}: it is a link that leads to itself")
        if target.is_dir():
            raise OutputError(f"cannot write {path}: a folder of that name is in the way")
        if target.exists() and not target.is_file():
            raise OutputError(f"cannot write {path}: it is no ordinary file")
        if target.exists() and ours is not None:
            with target.open("rb") as file:
                if not ours(file.read(4096)):
                    raise OutputError(f"cannot write {path}: it is a file of another kind; name another, or remove it")
        if not target.parent.exists():
            raise OutputError(f"cannot write {path}: there is no folder {target.parent}")
        part = partial_path(target)
        with lock_file(part, path):
            try:
                yield part
                os.replace(part, target)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {system_says(error)}") from None


def check_free(files: Iterable[Path], force: bool) -> None:
    """Raise OutputError where one of `files` exists, unless `force` allows replacing it."""
    if there := [] if force else [path for path in files if os.path.lexists(path)]:
        raise OutputError(f"cannot write {there[0]}: it exists already; name another file, or replace it with --force")


def check_writable_below(folder: str | Path) -> None:
    """Raise OSError, with the lowest folder of its path that exists, where nothing could be written below `folder`."""
    place = Path(folder).absolute()
    above = next(parent for parent in (place, *place.parents) if parent.exists())
    try:
        # permissions alone do not tell: file systems may be read-only, and root passes every check of them
        with tempfile.TemporaryFile(dir=above):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(above)) from None


def write_text(text: str, path: str | Path, follow: bool = True) -> None:
    """Write a text file atomically, see `atomic_file`."""
    with atomic_file(path, follow=follow) as part:
        part.write_text(text, encoding="utf-8")


def partial_path(path: Path) -> Path:
    """Temporary path for writing `path`. A killed process may leave it behind; the next one overwrites it."""
    return path.with_name(f".{path.name}.part")


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


@contextmanager
def lock_file(path: Path, name: str | Path) -> Iterator[None]:
    """Lock the file `path` for this process, creating it if it is missing.

    The lock ends with the context or the process. Raises OutputError about `name` where another process has the lock,
    and where `path` is a link: what it leads to is not the program's to write.
    """
    if path.is_symlink():
        raise OutputError(f"cannot write {name}: {path} is a link; remove it")
    if path.exists():
        check_ordinary(path)
    with open(path, "ab", opener=_open_no_link) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"another process is at work on {name}; wait for it, or stop it") from None
        except OSError:
            pass  # a file system without locks
        else:
            if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                raise OutputError(f"another process has just been at work on {name}; try again")
        yield


def is_locked(path: Path) -> bool | None:
    """Whether a process has locked the file `path`, see `lock_file`; None on a file system without locks."""
    try:
        check_ordinary(path)
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False
