"""The list of all commands as Markdown, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command


def command_list(level: int = 2) -> str:
    """Return Markdown that describes all commands: for each heading of `asyncfl --help` a table of commands.

    The commands of a group (`asyncfl audit neighbours`) follow their group. `level`: depth of the headings, 1..6.
    """
    from asyncfl.cli import app

    tables: dict[str, list[str]] = {}
    group: Any = get_command(app)
    for name in group.order:
        command = group.commands[name]
        rows = tables.setdefault(str(getattr(command, "rich_help_panel", None) or "Commands"), [])
        rows += [f"| `{path}` | {summary} |" for path, summary in _entries(f"asyncfl {name}", command)]
    head = ["| command | what it does |", "|---|---|"]
    blocks = ["\n".join([f"{'#' * level} {title}", "", *head, *rows]) for title, rows in tables.items()]
    return "\n\n".join(blocks) + "\n"


def _entries(path: str, command: Any) -> Iterator[tuple[str, str]]:
    """Yield a command and the commands below it: full name, and first paragraph of the help."""
    summary = " ".join((command.help or "").partition("\n\n")[0].split())
    yield path, summary.replace("|", "\\|")
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from _entries(f"{path} {name}", below)
