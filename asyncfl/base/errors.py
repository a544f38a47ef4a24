"""All exceptions of the package, as one tree, and the wording of their messages.

    AsyncflError
    ├── InputError         a file or call of the user with one or more faults, all listed
    │   ├── ScenarioError       a scenario or experiment file
    │   └── DataError           a data folder or data file
    │       └── MissingDataError    data sets by name that are not on disk
    ├── ComponentError      a component that returned an invalid value
    ├── MessageError        an impossible message to a server, such as a second answer
    ├── OutputError         a results folder that cannot be written
    └── RunError            a run on disk that is missing, unfinished or of another version

The command line prints any of them as a message without a traceback and exits with status 2.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MOST_LISTED = 50
"""Most faults that one message lists; the others are only counted."""


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of writing or begin a line."""


def printable(text: str) -> str:
    """Return `text` with control characters escaped: names in files of others must not steer a terminal."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class AsyncflError(Exception):
    """Base class of all errors that the package raises deliberately."""

    def __str__(self) -> str:
        return printable(super().__str__())


def shortened(text: object, length: int = 80) -> str:
    """Return `text` shortened to at most `length` characters: its beginning, three dots and its end."""
    whole = str(text)
    return whole if len(whole) <= length else f"{whole[: length - 13]}...{whole[-10:]}"


def system_says(error: OSError) -> str:
    """Return the reason given by the operating system, without error number and path."""
    return error.strerror or str(error)


CLOSE = 0.6
"""Share of their letters that a misspelt name and the one that it is taken for must have in common."""


def nearest(name: object, known: Iterable[object]) -> str | None:
    """Return the known name closest to the misspelt `name`; None where none is close.

    Of two that are nearly as close, one that begins it, or that it begins: `lr` for `lrate`, not `state`.
    """
    given = str(name)[:80].lower()

    def closeness(one: str) -> float:
        begins = min(len(one), len(given)) > 1 and (given.startswith(one) or one.startswith(given))
        return difflib.SequenceMatcher(None, one, given).ratio() + (0.05 if begins else 0.0)

    scored = [(closeness(written.lower()), written) for written in map(str, known)]
    best = max(scored, key=lambda pair: pair[0], default=(0.0, ""))
    return best[1] if best[0] >= CLOSE else None


def hint(name: object, known: Iterable[object], what: str) -> str:
    """Return `did you mean X?` where a known name is close to `name`, else all known names: `what: A, B, C`."""
    listed = [str(one) for one in known]
    near = nearest(name, listed)
    return f"did you mean {near}?" if near else f"{what}: {', '.join(listed) or 'none'}"


def any_of(names: Iterable[object]) -> str:
    """Return `A`, `A or B`, `A, B or C`."""
    *first, last = map(str, names)
    return f"{', '.join(first)} or {last}" if first else last


@dataclass(frozen=True)
class Fault:
    """One fault of an input: the dotted field, and a message with what was required, what came and the remedy."""

    field: str
    message: str

    def __str__(self) -> str:
        # Only the value that came can contain a word of thousands of characters.
        field, message = (_LONG_WORD.sub(lambda word: shortened(word[0]), text) for text in (self.field, self.message))
        return f"{field}: {message}" if field else message

    def under(self, part: str) -> Fault:
        """Return this fault with its field inside of the section `part`."""
        return Fault(".".join(filter(None, (part, self.field))), self.message)


_LONG_WORD = re.compile(r"\S{121,}")


class InputError(AsyncflError):
    """Input with one or more faults, all of them listed.

    `source` is the file (or command) the input came from, where there is one.
    """

    def __init__(self, faults: Iterable[Fault] | str, source: str | Path | None = None) -> None:
        self.faults = (Fault("", faults),) if isinstance(faults, str) else tuple(faults)
        self.source = None if source is None else str(source)
        super().__init__(self.faults, self.source)

    def __str__(self) -> str:
        head = f"{self.source}: " if self.source else ""
        if len(self.faults) == 1:
            return printable(f"{head}{self.faults[0]}")
        left = len(self.faults) - MOST_LISTED
        more = [f"... and {left} more"] if left > 0 else []
        return printable("\n  ".join([f"{head}{len(self.faults)} faults", *map(str, self.faults[:MOST_LISTED]), *more]))


class ScenarioError(InputError):
    """A scenario or an experiment file that cannot be simulated."""


class DataError(InputError):
    """A data set that is missing, damaged or too small for the scenario."""


class MissingDataError(DataError):
    """Data sets by name that are not on disk, and are not downloaded."""

    def __init__(
        self, faults: Iterable[Fault] | str, source: str | Path | None = None, missing: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(faults, source)
        self.missing = dict(missing or {})
        """Name of each missing data set -> its title."""


class ComponentError(AsyncflError):
    """An invalid value that a rule, detector, attack or staleness function returned."""


class MessageError(AsyncflError):
    """An impossible message to a server: about an unknown client or task, or a second answer."""


class OutputError(AsyncflError):
    """A folder or file that cannot be written."""


class RunError(AsyncflError):
    """A run on disk that is missing or cannot be read."""
