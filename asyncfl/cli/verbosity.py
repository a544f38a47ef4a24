"""The option `-v`: log messages on standard error."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from asyncfl.cli.progress import stderr

LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
"""Logging levels for no `-v`, one, and two or more."""


class _LogHandler(logging.Handler):
    """Logging handler that prints above the progress bars."""

    def emit(self, record: logging.LogRecord) -> None:
        stderr.print(self.format(record), soft_wrap=True)


def log_to_stderr(verbosity: int) -> None:
    """Print log messages from now on: warnings; with 1 the steps of a run; with 2 each model version."""
    log = logging.getLogger("asyncfl")
    handler = _LogHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    log.handlers = [handler]
    log.setLevel(LEVELS[min(verbosity, 2)])


def move_verbose_first(arguments: Sequence[str]) -> list[str]:
    """Return `arguments` with `-v` and `--verbose` in front, where typer expects the options of the whole program."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    flags = [one for one in arguments[:end] if re.fullmatch("-v+|--verbose", one)]
    return [*flags, *(one for one in arguments[:end] if one not in flags), *arguments[end:]]
