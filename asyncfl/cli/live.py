"""`asyncfl live`: run a scenario as a real federation, in real time, on one machine or several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.cli.live_flower import flower
from asyncfl.cli.live_join import join
from asyncfl.cli.live_server import here, serve
from asyncfl.cli.options import CommandGroup, argument, option
from asyncfl.cli.output import console, print_text

HELP = """Run a scenario as a real federation, in real time.

`asyncfl live scenario.yaml` is short for `asyncfl live here scenario.yaml`.

Example: asyncfl live scenario.yaml --shape --speedup 10
"""


class LiveGroup(CommandGroup):
    """The commands of `asyncfl live`; `here` may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *self.get_help_option_names(ctx)):
            args = ["here", *args]
        return super().parse_args(ctx, args)


def keys(
    folder: Annotated[Path, argument("FOLDER", "Folder to write, or to add clients to.")],
    host: Annotated[list[str] | None, option("Name or address of the server. May be repeated.")] = None,
    client: Annotated[list[str] | None, option("Name of a client. May be repeated.")] = None,
    clients: Annotated[int, option("Number of clients to name 0, 1, ... in addition.", min=0, max=100_000)] = 0,
    days: Annotated[int, option("Days until the certificate expires.", min=1, max=3650)] = 365,
) -> None:
    """Create a certificate for the server, and a token for each client.

    Existing files are kept.

    Example: asyncfl live keys keys --host fed.example.org --client ann --client bob
    """
    from asyncfl.live.keys import CERTIFICATE, make_keys

    names = [*(client or []), *map(str, range(clients))]
    if len(set(names)) < len(names):
        raise ScenarioError([Fault("--client", "must name each client once")])
    if not (names or host):
        raise ScenarioError([Fault("--client", "must name the clients that need a token")])
    for path in make_keys(folder, host or [], names, days):
        console.print(f"{path} written")
    print_text(
        f"Give each client its own token and {folder / CERTIFICATE} over a channel that you trust. Keep all other "
        f"files in {folder} on the server."
    )


app = typer.Typer(cls=LiveGroup, no_args_is_help=True, help=HELP)
for _command in (here, serve, join, keys, flower):
    app.command(_command.__name__)(_command)
