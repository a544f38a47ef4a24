"""Commands that are imported when they are called, so that `asyncfl --help` and completion load none of them."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import click
import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from asyncfl.cli.options import with_whole_paragraphs

COMMANDS: dict[str, dict[str, str]] = {
    "Run": {"init": "explain:init", "run": "run:run", "sweep": "sweep:sweep", "timeline": "timeline:timeline"},
    "Look": {"view": "view:view", "trace": "trace:app", "ledger": "ledger:ledger", "compare": "compare:compare"},
    "Measure": {
        "audit": "audit:app",
        "privacy": "privacy:app",
        "bounds": "privacy:bounds",
        "stress": "stress:stress",
        "replay": "replay:replay",
        "calibrate": "calibrate:calibrate",
    },
    "Live": {"live": "live:app"},
    "Data": {"data": "data:app", "export": "export:export"},
    "Help": {"explain": "explain:explain", "schema": "explain:schema"},
}
"""Heading of `asyncfl --help` -> name of a command -> module in this package, and its function or group of commands."""

_PLACES = {name: place for commands in COMMANDS.values() for name, place in commands.items()}
_HEADINGS = {name: heading for heading, commands in COMMANDS.items() for name in commands}


class LazyCommands(TyperGroup):
    """A group of commands each of which is imported when it is called."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "suggest_commands": False})  # click names the nearest command itself
        self._lists = False
        """Whether the help is being printed, which needs the summaries of the commands alone."""

    @property  # type: ignore[override]
    def commands(self) -> dict[str, click.Command]:
        """All commands by name, imported."""
        return {name: _command(name) for name in _PLACES}

    @commands.setter
    def commands(self, commands: Any) -> None:
        """Ignore the commands that click gives a new group: it has those of `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return list(_PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; while the help is printed, one that has a summary only."""
        if cmd_name not in _PLACES:
            return None
        return _summary(cmd_name) if self._lists else _command(cmd_name)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the help."""
        self._lists = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._lists = False


@cache
def _command(name: str) -> click.Command:
    module, _, attribute = _PLACES[name].partition(":")
    found = getattr(importlib.import_module(f"asyncfl.cli.{module}"), attribute)
    command: Any
    if isinstance(found, typer.Typer):
        command = get_group(found)
    else:
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
        alone.command(name)(found)
        command = get_command(alone)
    command.name, command.rich_help_panel = name, _HEADINGS[name]
    command.help = with_whole_paragraphs(command.help)
    return command  # type: ignore[no-any-return]


@cache
def _summary(name: str) -> click.Command:
    """Return a command that has the first paragraph of a command's help, read from its source, and nothing else."""
    module, _, attribute = _PLACES[name].partition(":")
    text = (Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8")
    constant = "HELP" if attribute == "app" else attribute.upper()
    # Parsing all files would take longer than everything else that the help needs.
    found = re.search(rf'^def {attribute}\(.*?"""(.+?)"""|^{constant} = "+(.+?)"', text, re.DOTALL | re.MULTILINE)
    assert found is not None
    text = (found[1] or found[2]).partition("\n\n")[0]
    command: Any = click.Command(name, help=with_whole_paragraphs(text))
    command.rich_help_panel = _HEADINGS[name]
    return command  # type: ignore[no-any-return]
