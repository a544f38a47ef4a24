"""Folders that the program owns. A mark lists the program's files, and no other file is ever replaced.

    FOLDER/.asyncfl.json   the mark: program, format, kind of contents, scenario, files
    FOLDER/.partial/       unfinished work: finished parts that wait for the rest, and the lock of the working process
    FOLDER/*               the files listed in the mark, and files of the user, which are left alone

Only what the program made is removed, and no link is followed: `.partial`, and the folders in it that the program would
empty, are opened by descriptor, and refused where they are links.

A process may be killed between any two steps: the next one finds the old contents complete, or continues `.partial`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from asyncfl.base.errors import OutputError, system_says
from asyncfl.base.files.atomic import is_locked, lock_file, partial_path, write_text
from asyncfl.base.files.reading import read_bytes

FORMAT = 3
"""Version of the format on disk; part of every digest, so that old results are never taken for new ones."""

MARK = ".asyncfl.json"
LARGEST_MARK = 10_000_000
PARTIAL = ".partial"
LOCK = "lock"
WHOLE = "whole"
OWN_PARTS = re.compile(f"[0-9a-f]{{16}}|live|{WHOLE}")
"""Names of the folders that the program makes in `.partial`."""
CHECKPOINT = ".checkpoint"

Write = Callable[[Path], object]
"""Function that writes files into a given empty folder."""


@dataclass(frozen=True)
class FolderMark:
    """Mark of a folder that the program owns."""

    holds: str
    scenario: str
    """Digest of the scenario of the contents."""
    whole: bool = False
    files: tuple[str, ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Name -> SHA-256 of the file when it was written."""

    @classmethod
    def of(cls, folder: Path, holds: str, scenario: str, volatile: Collection[str] = ()) -> FolderMark:
        """Return the mark of the files in a folder, with the SHA-256 of those not in `volatile`. Raises OSError."""
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
        sha256 = {name: _sha256(folder / name) for name in names if name not in volatile}
        return cls(holds, scenario, True, tuple(names), sha256)

    def write(self, folder: Path) -> None:
        """Write the mark into a folder. Raises OutputError."""
        write_text(self.to_json(), folder / MARK, follow=False)

    def to_json(self) -> str:
        """Write the mark as JSON, the same bytes for equal marks."""
        fields = {"program": "asyncfl", "format": FORMAT, **vars(self), "files": sorted(self.files)}
        return json.dumps(fields, indent=2) + "\n"

    def changed(self, folder: Path, names: Iterable[str]) -> str | None:
        """Return the first of `names` whose file differs from the one that was written; None without one.

        Files of which the mark knows no SHA-256 are not checked. Raises OSError.
        """
        return next((one for one in names if one in self.sha256 and _sha256(folder / one) != self.sha256[one]), None)

    @classmethod
    def read(cls, folder: Path) -> FolderMark | None:
        """Read the mark in `folder`; None where this program wrote none."""
        try:
            found: dict[str, Any] = json.loads(read_bytes(folder / MARK, LARGEST_MARK))
            if found["program"] != "asyncfl" or not all(isinstance(name, str) for name in found["files"]):
                return None
            # Names must stay within the folder.
            inside = [
                one for one in found["files"] if one.count("/") <= 1 and not {"", ".", ".."} & set(one.split("/"))
            ]
            sha256 = dict(found.get("sha256", {}))
            return cls(str(found["holds"]), str(found["scenario"]), bool(found["whole"]), tuple(inside), sha256)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None


class OwnFolder:
    """Folder for contents of one kind (`holds`), made from the scenario with the digest `scenario`."""

    volatile: ClassVar[tuple[str, ...]] = ()
    """Files that differ between equal contents, such as wall times; the mark holds no SHA-256 of them."""

    def __init__(self, folder: Path, holds: str, scenario: str) -> None:
        self.folder, self.holds, self.scenario = folder, holds, scenario

    def mark(self) -> FolderMark | None:
        """Mark of the folder; None where the folder is missing or empty.

        Raises OutputError for a file, a broken link, a folder with the user's files, or another kind of contents.
        """
        folder = self.folder
        with self._os_errors():
            if folder.is_symlink() and not folder.exists():
                raise OutputError(f"cannot write {folder}: it is a link to {os.readlink(folder)}, which is not there")
            if not folder.exists():
                return None
            if not folder.is_dir():
                raise OutputError(f"cannot write {folder}: a file of that name is in the way")
            mark = FolderMark.read(folder)
            # A process killed while writing the mark leaves a partial file behind.
            found = sorted(path.name for path in folder.iterdir() if path.name != partial_path(folder / MARK).name)
        if mark is None and found:
            some = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
            raise OutputError(
                f"cannot write {folder}: it was not made by this program and is not empty (it holds {some}); "
                "name a new or an empty folder"
            )
        if mark is not None and mark.holds != self.holds:
            raise OutputError(f"cannot write {folder}: it holds a {mark.holds}; name another folder")
        return mark

    def is_named(self, scenario: str) -> bool:
        """Whether a digest is that of this folder's scenario."""
        return scenario == self.scenario

    def is_whole(self) -> bool:
        """Whether the folder holds the complete contents of this scenario. Raises OutputError as `mark` does."""
        mark = self.mark()
        if mark is None or not mark.whole or not self.is_named(mark.scenario):
            return False
        return all((self.folder / name).is_file() for name in mark.files)

    def is_of_another(self) -> bool:
        """Whether the folder holds contents of another scenario, complete or not. Raises OutputError as `mark` does."""
        mark = self.mark()
        if mark is None or self.is_named(mark.scenario):
            return False
        return bool(mark.files) or any(self.kept()) or any(self.checkpoints())

    def checkpoints(self) -> Iterator[Path]:
        """Iterate over the checkpoints of unfinished parts below `.partial`."""
        return self.folder.glob(f"{PARTIAL}/*/*{CHECKPOINT}")

    def kept(self) -> Iterator[Path]:
        """Iterate over finished parts below `.partial`, see `fill`."""
        return (path for path in self.folder.glob(f"{PARTIAL}/*/*") if path.is_dir() and path.suffix != ".unfinished")

    def check(self, force: bool = False) -> None:
        """Raise OutputError where the folder cannot be used, see `mark`, or belongs to another scenario.

        `force`: allow replacing the contents of another scenario.
        """
        if self.is_of_another() and not force:
            is_begun = any(self.kept()) or any(self.checkpoints())
            told = f"an unfinished {self.holds}" if is_begun else f"a {self.holds}"
            go_on = "go on with it by its own scenario and settings, " if is_begun else ""
            raise OutputError(
                f"cannot write {self.folder}: it holds {told} of another scenario{self.difference()}; "
                f"{go_on}name another folder, or replace what is there with force (--force)"
            )

    def difference(self) -> str:
        """Differences of the scenario in the folder, in parentheses; empty where unknown."""
        return ""

    @contextmanager
    def working(self, force: bool = False) -> Iterator[Path]:
        """Lock and return the folder for unfinished work, creating what is missing.

        Its contents are kept when the context ends; where it is empty, everything created is removed. Raises
        OutputError as `check` does, where it is a link or cannot be written, and where another process is at work.
        """
        self.check(force)
        area = self.folder / PARTIAL
        with ExitStack() as stack:
            with self._os_errors():
                made = [place for place in (self.folder, *self.folder.parents) if not place.exists()]
                stack.callback(_remove_empty, made)
                self.folder.mkdir(parents=True, exist_ok=True)
                self._refuse_links(area)
                if self.mark() is None:
                    FolderMark(self.holds, self.scenario).write(self.folder)
                area.mkdir(exist_ok=True)
                stack.enter_context(lock_file(area / LOCK, self.folder))
            stack.callback(self._clean, area)
            # Checked again under the lock: another process may have started here meanwhile.
            self.check(force)
            if (mark := self.mark()) is not None and not self.is_named(mark.scenario) and not self.is_of_another():
                FolderMark(self.holds, self.scenario).write(self.folder)
            yield area

    def _refuse_links(self, area: Path) -> None:
        """Raise OutputError where work in `area` would be done, and removed, somewhere else."""
        inside = [] if area.is_symlink() else [area / name for name in _own_parts(area)]
        if link := next((place for place in (area, *inside) if place.is_symlink()), None):
            told = "is a link, and unfinished work is removed there; remove the link"
            raise OutputError(f"cannot write {self.folder}: {link} {told}")

    def _clean(self, area: Path) -> None:
        # A file that cannot be removed is harmless, and must not hide the original error.
        with suppress(OSError), _opened(area) as inside:
            for part in _own_parts(inside):
                with suppress(OSError), _opened(part, inside) as below:
                    for name in (name for name in os.listdir(below) if name.endswith(".unfinished")):
                        shutil.rmtree(name, dir_fd=below)
                with suppress(OSError):
                    os.rmdir(part, dir_fd=inside)
            if set(os.listdir(inside)) - {LOCK}:
                return
            with suppress(FileNotFoundError):  # the folder was removed and made again
                os.unlink(LOCK, dir_fd=inside)
            area.rmdir()
            if [path.name for path in self.folder.iterdir()] == [MARK]:
                (self.folder / MARK).unlink()

    def _make_again(self) -> None:
        """Make the folder again if it was removed during the work: the work is not lost."""
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            FolderMark(self.holds, self.scenario).write(self.folder)

    def keep(self, place: Path, write: Write) -> None:
        """Fill the folder `place`, two levels below the working area, by `write`. Raises OutputError."""
        with self._os_errors():
            self._make_again()
            fill(place, write)

    def replace(self, area: Path, write: Write, last: str) -> None:
        """Make the new files by `write`, replace the old ones, and empty `area`.

        `last`: the file by which readers recognise complete contents; it is absent while the others are exchanged.
        Raises OutputError, and changes nothing, where `write` fails or a file of the user has one of the new names.
        """
        staging = area / WHOLE / self.scenario
        with self._os_errors():
            self._make_again()
            fill(staging, write)
            whole = FolderMark.of(staging, self.holds, self.scenario, self.volatile)
            new, old = whole.files, () if (mark := self.mark()) is None else mark.files
            if foreign := [name for name in sorted({*old, *new}) if self._is_foreign(name, old)]:
                _empty(area, WHOLE)
                raise OutputError(
                    f"cannot write {self.folder}: {', '.join(foreign)} was not written by this program; move it away"
                )
            FolderMark(self.holds, self.scenario, False, tuple({*old, *new})).write(self.folder)
            (self.folder / last).unlink(missing_ok=True)
            for name in sorted({*old} - {*new}):
                (self.folder / name).unlink(missing_ok=True)
            for name in sorted(new, key=lambda name: name == last):
                (self.folder / name).parent.mkdir(exist_ok=True)
                os.replace(staging / name, self.folder / name)
            _remove_empty(self.folder / name for name in {os.path.dirname(name) for name in old} - {""})
            whole.write(self.folder)
            _empty(area)

    def tidy(self) -> None:
        """Remove unfinished work beside complete contents: an interrupt may have left some, which nobody needs."""
        if (self.folder / PARTIAL).is_dir():
            with suppress(OutputError, OSError), self.working() as area:
                _empty(area)

    def _is_foreign(self, name: str, old: tuple[str, ...]) -> bool:
        path = self.folder / name
        above = path.parent
        if above != self.folder and (above.is_symlink() or (above.exists() and not above.is_dir())):
            return True
        return os.path.lexists(path) and (name not in old or (path.is_dir() and not path.is_symlink()))

    @contextmanager
    def _os_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(f"cannot write {self.folder}: {system_says(error)}") from None


def is_worked_on(folder: Path) -> bool:
    """Whether a process is working in a folder; a guess on file systems without locks."""
    at_work = is_locked(folder / PARTIAL / LOCK)
    return at_work if at_work is not None else (mark := FolderMark.read(folder)) is not None and not mark.whole


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _opened(folder: str | Path, within: int | None = None) -> Iterator[int]:
    """Open a folder and yield its descriptor. `within`: that of the folder which holds it. A link is an OSError."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        yield number
    finally:
        os.close(number)


def _own_parts(area: Path | int) -> list[str]:
    """Return the names in the working area that the program uses; none where there is no such folder."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(filter(OWN_PARTS.fullmatch, os.listdir(area)))
    return []


def _empty(area: Path, only: str | None = None) -> None:
    """Remove the program's folders in the working area, or that of the name `only`.

    Links are kept, and what cannot be removed is harmless.
    """
    with suppress(OSError), _opened(area) as inside:
        for name in _own_parts(inside) if only is None else [only]:
            with suppress(OSError):
                shutil.rmtree(name, dir_fd=inside)


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def fill(folder: Path, write: Write) -> None:
    """Fill a new folder by `write`, and give it the name `folder` when it is complete, replacing an older one."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    for old in (unfinished, folder):
        if old.is_symlink():
            old.unlink()
        elif old.exists():
            shutil.rmtree(old)
    unfinished.mkdir(parents=True)
    try:
        write(unfinished)
        os.replace(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def write_json(value: Any, path: Path) -> None:
    """Write `value` as JSON with sorted keys. Raises OSError."""
    path.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
