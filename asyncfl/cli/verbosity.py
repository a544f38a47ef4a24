"""What `-v` adds: what is logged while a command works, on standard error."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from asyncfl.cli.progress import stderr

LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
"""Of no `-v`, one, and more."""


class _LogHandler(logging.Handler):
    """Prints what is logged above bars that show how far a command is."""

    def emit(self, record: logging.LogRecord) -> None:
        stderr.print(self.format(record), soft_wrap=True)


def log_to_stderr(verbosity: int) -> None:
    """Print what is logged from now on: warnings, with 1 what a run does, with 2 each version of it too."""
    log = logging.getLogger("asyncfl")
    told = _LogHandler()
    told.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    log.handlers = [told]
    log.setLevel(LEVELS[min(verbosity, 2)])


def move_verbose_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with those that ask for more words in front, wherever they stood: they are of the whole program."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    asked = [one for one in arguments[:end] if re.fullmatch("-v+|--verbose", one)]
    return [*asked, *(one for one in arguments[:end] if one not in asked), *arguments[end:]]
