"""`asyncfl live keys`: what server and clients on different machines know each other by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asyncfl.cli.output import console, print_text
from asyncfl.errors import Fault, ScenarioError


def keys(
    folder: Annotated[Path, typer.Argument(help="folder to write, or to add clients to")],
    host: Annotated[
        list[str] | None, typer.Option(help="name or address by which clients call the server; may be repeated")
    ] = None,
    client: Annotated[list[str] | None, typer.Option(help="name of a client; may be repeated")] = None,
    clients: Annotated[int, typer.Option(help="make clients 0, 1, ... as well, so many", min=0, max=100_000)] = 0,
    days: Annotated[int, typer.Option(help="days that the certificate is valid", min=1, max=3650)] = 365,
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
        raise ScenarioError([Fault("--client", "must name whom a token is made for")])
    for path in make_keys(folder, host or [], names, days):
        console.print(f"{path} written")
    print_text(
        f"Give each client its own token, and {folder / CERTIFICATE}, by a way that you trust; all else in {folder} "
        "is the server's alone."
    )
