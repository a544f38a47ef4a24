"""The command line, `asyncfl COMMAND`. Each command has a file of its own in this package."""

from __future__ import annotations

import errno
import io
import logging
import os
import re
import shlex
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from asyncfl.base.collector import collect_seldom
from asyncfl.base.errors import AsyncflError, system_says
from asyncfl.base.interrupt_signals import status_of
from asyncfl.base.own_classes import describe_user_exception, look_for_modules_in
from asyncfl.cli.lazy_commands import COMMANDS, LazyCommands
from asyncfl.cli.options import option

__all__ = ["COMMANDS", "app", "main", "move_verbose_first"]

app = typer.Typer(
    cls=LazyCommands,
    help="Simulate federated learning that is private, attacked and late.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"asyncfl {version('asyncfl')}")
        raise typer.Exit()


@app.callback()
def _asyncfl(
    version: Annotated[bool, option("Print the version.", "--version", is_eager=True, callback=_print_version)] = False,
    traceback: Annotated[bool, option("Show the whole traceback of a component of your own.", "--traceback")] = False,
    verbose: Annotated[
        int, option("Log each step to standard error; -vv: each version too.", "--verbose", "-v", count=True)
    ] = 0,
) -> None:
    """Simulate federated learning that is private, attacked and late."""
    log = logging.getLogger("asyncfl")
    handler = _LogHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    log.handlers = [handler]
    log.setLevel((logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)])


class _LogHandler(logging.Handler):
    """Logging handler that prints above the progress bars."""

    def emit(self, record: logging.LogRecord) -> None:
        from asyncfl.cli.progress import stderr

        stderr.print(self.format(record), soft_wrap=True)


def move_verbose_first(arguments: Sequence[str]) -> list[str]:
    """Return `arguments` with `-v` and `--verbose` in front, where typer expects the options of the whole program."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    flags = [one for one in arguments[:end] if re.fullmatch("-v+|--verbose", one)]
    return [*flags, *(one for one in arguments[:end] if one not in flags), *arguments[end:]]


def main() -> None:
    """Run the command line.

    An `AsyncflError` is printed as one message, with exit status 2. An error in a component of the user's own is
    printed as one message that names the line, with exit status 1.
    """
    _open_standard_streams()
    collect_seldom()
    # Looking for plugins reads the metadata of all installed packages, and ours needs none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Unlike `python -m`, an installed program does not look for modules in the working directory by itself.
    look_for_modules_in(".")
    try:
        try:
            app(args=move_verbose_first(sys.argv[1:]))
        finally:
            sys.stdout.flush()
    except AsyncflError as error:
        _fail(str(error), 2)
    except KeyboardInterrupt as error:
        sys.exit(status_of(error))
    except BaseException as error:
        if (message := describe_user_exception(error)) is not None:
            if "--traceback" in sys.argv:
                traceback.print_exception(error)
                _fail(message, 1)
            command = shlex.join(["asyncfl", "--traceback", *sys.argv[1:]])
            _fail(f"{message}\n  {command} shows the whole traceback", 1)
        if isinstance(error.__context__ if isinstance(error, SystemExit) else error, BrokenPipeError):
            # The program that reads our output (head, less) has ended. Typer turns that into status 1.
            sys.stderr.close()
            sys.exit(0)
        if isinstance(error, OSError) and error.filename is None and error.errno in _FULL:
            # Python would try to write the rest once more at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            _fail(f"cannot write to standard output: {system_says(error)}", 2)
        raise


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a disk that takes no more."""


def _fail(message: str, status: int) -> None:
    print(f"asyncfl: {message}", file=sys.stderr)
    sys.exit(status)


def _open_standard_streams() -> None:
    """Open /dev/null for each standard stream that the caller has closed, before a file gets its number.

    Characters that a stream's encoding lacks are printed as question marks.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))
        if number and isinstance(stream := getattr(sys, name), io.TextIOWrapper) and stream.errors == "strict":
            # A terminal that is not of UTF-8 lacks dashes and Greek letters of our tables.
            stream.reconfigure(errors="replace")


if __name__ == "__main__":
    main()
