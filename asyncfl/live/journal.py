"""Journal of a live federation: its inputs on disk in their order, from which a server that was killed goes on.

    FOLDER/.partial/live/server.checkpoint   state between two steps, see `checkpoint_file`; names the journal after it
    FOLDER/.partial/live/journal-12          inputs since then: length and CRC-32 (4 bytes each), then the input
                                             as MessagePack, then the frame of a message

An input is written before it is carried out. Both files are their owner's alone (mode 0600): a checkpoint holds the
secret of the server's noise, a journal what clients sent.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import struct
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from asyncfl.base.errors import OutputError, system_says
from asyncfl.base.files.checkpoint_file import read_checkpoint, write_checkpoint
from asyncfl.live.wire import Hello

log = logging.getLogger("asyncfl.live")

LEAST_BYTES = 32 * 2**20
"""Bytes of a journal before the next checkpoint; where checkpoints are larger, twice as much as the last one."""
RETRY_S = 30.0
"""Real seconds between two attempts to write where it was impossible before."""


class Input(Struct, frozen=True, array_like=True, tag=True):
    """Base of all inputs of a live federation."""


class Connected(Input, frozen=True):
    """A client introduced itself with its token, which is left out here."""

    link: int
    """Number of the connection."""
    hello: Hello


class Disconnected(Input, frozen=True):
    """A client's connection has ended."""

    client: int
    link: int


class Malformed(Input, frozen=True):
    """A client sent a frame that is no message."""

    client: int
    reason: str


class Rang(Input, frozen=True):
    """The time of an alarm has come."""

    alarm: int


class Ending(Input, frozen=True):
    """The run is to stop."""

    reason: str


class Step(Input, frozen=True):
    """Base of inputs that are carried out at a time of the run's clock."""

    time_s: float


class Began(Step, frozen=True):
    """The run begins."""


class Started(Step, frozen=True):
    """The server starts."""


class TookNext(Step, frozen=True):
    """The first of what waits is handled."""


class Worked(Step, frozen=True):
    """Work of the step before, such as an aggregation, is done."""


class Said(Step, frozen=True):
    """A client's message is handled; its frame follows."""

    client: int
    arrived_s: float


AnyInput: TypeAlias = Connected | Disconnected | Malformed | Rang | Ending | Began | Started | TookNext | Worked | Said

_HEAD = struct.Struct("<III")
"""Bytes of the input, bytes of the frame, CRC-32 of both."""
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyInput] = msgspec.msgpack.Decoder(AnyInput)


class Found(NamedTuple):
    """What an earlier process left."""

    content: bytes
    """Its latest checkpoint."""
    inputs: Iterator[tuple[AnyInput, bytes]]
    """Inputs after it, with the frames of messages."""
    passed_s: float
    """Real seconds since the last of them."""


class Journal:
    """Journal and checkpoints of one run, in the first of some folders that can be written.

    No method raises an error of the disk: where nothing can be written the run goes on in memory, and another attempt
    is made later.
    """

    def __init__(self, places: Sequence[Path], about: Mapping[str, Any]) -> None:
        """`places`: folders, of which only one is used at a time; `about`: what a checkpoint is recognised by."""
        self._places, self._about = list(places), dict(about)
        self._number = 0
        self._file: IO[bytes] | None = None
        self._written = 0
        self._last_bytes = 0
        self._retry_s = 0.0
        self.place: Path | None = None
        """Folder of the latest checkpoint; None without one."""

    # --- writing -----------------------------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether the next checkpoint is to be written."""
        if self._file is None:
            return time.monotonic() >= self._retry_s
        return self._written >= max(LEAST_BYTES, 2 * self._last_bytes)

    def append(self, what: AnyInput, frame: bytes | memoryview = b"") -> None:
        """Write an input. `frame`: of a message."""
        if self._file is None:
            return
        content = _encoder.encode(what)
        head = _HEAD.pack(len(content), len(frame), zlib.crc32(frame, zlib.crc32(content)))
        try:
            whole = len(head) + len(content) + len(frame)
            if os.writev(self._file.fileno(), (head, content, frame)) < whole:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._written += whole
        except OSError as error:
            log.error("%s cannot be written (%s): the run goes on in memory", self.place, system_says(error))
            self._close()
            self._retry_s = 0.0

    def checkpoint(self, content: bytes | memoryview) -> None:
        """Begin a new journal after a state, `content`, from which the run could go on."""
        before, number = self.place, self._number + 1
        self._close()
        for place in sorted(self._places, key=lambda one: one != before):
            try:
                place.mkdir(parents=True, exist_ok=True, mode=0o700)
                path = _journal(place, number)
                # Nobody else's link is followed, should the folder be one that others can write to.
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
                file = open(os.open(path, flags, 0o600), "wb", buffering=0)  # noqa: SIM115
            except OSError as error:
                log.error("%s cannot be written: %s", place, system_says(error))
                continue
            try:
                write_checkpoint(checkpoint_path(place), {**self._about, "journal": number}, content)
            except OutputError as error:
                log.error("%s", error)
                file.close()
                _remove(path)
                continue
            self._file, self._number, self.place = file, number, place
            self._written, self._last_bytes = 0, len(content)
            self._remove_older()
            if place != (before or self._places[0]):
                log.warning("the run is written to %s from now on", place)
            return
        self.give_up(time.monotonic() + RETRY_S)
        log.error("the run cannot be written anywhere; it goes on in memory, and would be lost with this process")

    def give_up(self, until_s: float = math.inf) -> None:
        """Write nothing until that time of the monotonic clock."""
        self._close()
        self._retry_s = until_s
        # What is on disk lacks the latest inputs: a run from there would draw the same noise for other models.
        if self.place is not None:
            _remove(checkpoint_path(self.place))

    def _remove_older(self) -> None:
        for place in self._places:
            if place != self.place:
                _remove(checkpoint_path(place))
            for path in place.glob("journal-*"):
                if path != _journal(self.place or place, self._number):
                    _remove(path)

    def _close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self._file = None

    def close(self) -> None:
        """End the journal; its files stay."""
        self._close()
        self._retry_s = math.inf

    # --- reading -----------------------------------------------------------------------------------------------------

    def load(self) -> Found | None:
        """Return what an earlier process left; None where there is no checkpoint.

        Raises RunError for one of another run, of other code or of another account.
        """
        latest: bytes | None = None
        for place in self._places:
            # An older one stays where its folder can no longer be written.
            found = read_checkpoint(checkpoint_path(place), self._about)
            if found is not None and int(found[0]["journal"]) > self._number:
                self.place, self._number, latest = place, int(found[0]["journal"]), found[1]
        if self.place is None or latest is None:
            return None
        paths = [checkpoint_path(self.place)]
        while _journal(self.place, self._number + len(paths) - 1).exists():
            paths.append(_journal(self.place, self._number + len(paths) - 1))
        self._number += max(0, len(paths) - 2)
        passed_s = time.time() - max(path.stat().st_mtime for path in paths)
        return Found(latest, _inputs(paths[1:]), max(0.0, passed_s))


def checkpoint_path(place: Path) -> Path:
    """Path of the checkpoint in a folder."""
    return place / "server.checkpoint"


def _journal(place: Path, number: int) -> Path:
    return place / f"journal-{number}"


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _inputs(paths: Sequence[Path]) -> Iterator[tuple[AnyInput, bytes]]:
    """Yield the inputs of journals until the first that was not written to its end."""
    for path in paths:
        with path.open("rb") as file:
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                length, frame_length, crc = _HEAD.unpack(head)
                content, frame = file.read(length), file.read(frame_length)
                if len(frame) < frame_length or zlib.crc32(frame, zlib.crc32(content)) != crc:
                    return
                yield _decoder.decode(content), frame
