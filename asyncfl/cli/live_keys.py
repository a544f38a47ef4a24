"""`asyncfl live keys`: create the server's certificate and the clients' tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.cli.output import console, print_text


def keys(
    folder: Annotated[Path, typer.Argument(help="Folder to write, or to add clients to.", metavar="FOLDER")],
    host: Annotated[
        list[str] | None, typer.Option(help="Name or address of the server in its certificate. May be repeated.")
    ] = None,
    client: Annotated[list[str] | None, typer.Option(help="Name of a client. May be repeated.")] = None,
    clients: Annotated[
        int, typer.Option(help="Number of clients to name 0, 1, ... in addition.", min=0, max=100_000)
    ] = 0,
    days: Annotated[int, typer.Option(help="Days until the certificate expires.", min=1, max=3650)] = 365,
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
