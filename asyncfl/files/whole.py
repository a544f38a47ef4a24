"""Files that are written whole or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from asyncfl.errors import OutputError, system_says


@contextmanager
def whole_file(path: str | Path, ours: Callable[[bytes], bool] | None = None) -> Iterator[Path]:
    """A path beside `path` to write to; what was written there gets the name `path` when the context ends well.

    Until then, and after an exception, `path` is as it was. A link is followed, so that it stays one. `ours` is shown
    the first bytes of a file that lies there already and says whether it may be replaced (None: any file may).
    Raises OutputError where the file cannot be written, whatever the reason.
    """
    # Not Path.resolve, which raises its own error for links that go in circles.
    target = Path(os.path.realpath(path))
    try:
        if target.is_symlink():
            raise OutputError(f"cannot write {path}: it is a link that leads to itself")
        if target.is_dir():
            raise OutputError(f"cannot write {path}: a folder of that name is in the way")
        if target.exists():
            if not target.is_file():
                raise OutputError(f"cannot write {path}: it is no ordinary file")
            if ours is not None and not ours(_head(target)):
                raise OutputError(f"cannot write {path}: it is a file of another kind; name another, or remove it")
        if not target.parent.exists():
            raise OutputError(f"cannot write {path}: there is no folder {target.parent}")
        part = part_of(target)
        with held(part, path):
            try:
                yield part
                os.replace(part, target)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {system_says(error)}") from None


def check_free(files: Iterable[Path], force: bool) -> None:
    """Raises OutputError where one of `files` is there already, unless `force` says that they may be replaced."""
    if there := [] if force else [path for path in files if os.path.lexists(path)]:
        raise OutputError(
            f"cannot write {there[0]}: it is there already; name another file, or replace it with --force"
        )


def write_text(text: str, path: str | Path) -> None:
    """Writes a text file, see `whole_file`."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def part_of(path: Path) -> Path:
    """Where `path` is written until it is whole. A killed process leaves it there, and the next one writes it anew."""
    return path.with_name(f".{path.name}.part")


@contextmanager
def held(path: Path, name: str | Path) -> Iterator[None]:
    """While the context lasts no other process holds the file `path`, which is made if it is missing.

    A process that is killed lets go. Raises OutputError, which speaks of `name`, where another one holds it.
    """
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"another process is at work on {name}; wait for it, or stop it") from None
        except OSError:
            pass  # a file system that knows no locks
        else:
            if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                raise OutputError(f"another process has just been at work on {name}; try again")
        yield


def is_held(path: Path) -> bool | None:
    """Whether a process holds the file `path`, see `held`; None where the file system knows no locks."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4096)
