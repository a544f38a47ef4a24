"""`asyncfl live join`: join a federation as a client."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from asyncfl.base.errors import AsyncflError, Fault, ScenarioError
from asyncfl.base.own_classes import look_for_modules_in
from asyncfl.cli.options import argument, limit_threads, option
from asyncfl.cli.output import print_text

if TYPE_CHECKING:
    from asyncfl.live.client import LiveClient
    from asyncfl.live.joining import Joining
    from asyncfl.live.transport import Connect

MOST_BYTES = 2**30
"""Size of the longest frame that a client reads."""


class LiveError(AsyncflError):
    """Failure of a client, such as a lost connection."""


def join(
    url: Annotated[str, argument("URL", "Address of the server: wss://host:port.")],
    data: Annotated[Path, option("npz file with x_train and y_train. It stays on this machine.")],
    token: Annotated[Path, option("File with the name and token of this client.")],
    certificate: Annotated[Path | None, option("Server's certificate. Default: the machine's authorities.")] = None,
    scenario: Annotated[Path | None, option("Join only this scenario. Default: the server's.")] = None,
    patience: Annotated[float, option("Seconds to wait for a server that does not answer.", min=0, max=1e6)] = 60.0,
    quiet: Annotated[bool, option("Print no line for each task.", "--quiet")] = False,
) -> None:
    """Join a federation as a client; the samples stay on this machine.

    Example: asyncfl live join wss://fed.example.org:8765 --data ann.npz --token ann.token --certificate certificate.pem
    """
    if not re.fullmatch(r"wss://[^/\s?#@]+:\d{1,5}/?", url):
        raise ScenarioError([Fault("", f"the server's address must be wss://host:port, got {url!r}")])
    limit_threads()
    from asyncfl.data.client_file import ClientFile
    from asyncfl.live.client import LEFT
    from asyncfl.live.joining import Joining, load_agreed
    from asyncfl.live.keys import client_context, read_token
    from asyncfl.live.sockets import to

    (name, secret), tls = read_token(token), client_context(certificate)
    if scenario is not None:
        look_for_modules_in(scenario.parent)
    joining = Joining(ClientFile(data), None if scenario is None else load_agreed(scenario))
    print_text(f"{name}: {len(joining.own)} samples in {data}, which stay on this machine")
    client = asyncio.run(_run_client(joining, name, secret, to(url, MOST_BYTES, tls), patience, quiet))
    if not client.ended_well:
        raise LiveError(str(client.over))
    print_text(f"{name}: left" if client.over == LEFT else f"{name}: the run is over, {client.over}")


async def _run_client(
    joining: Joining, name: str, token: str, connect: Connect, patience_s: float, quiet: bool
) -> LiveClient:
    """Run the client until it has left or the run is over; return it."""
    from concurrent.futures import ThreadPoolExecutor

    from asyncfl.live.client import LiveClient
    from asyncfl.live.interrupts import Interrupts

    tell = None if quiet else print_text
    with ThreadPoolExecutor(1, "training") as executor:
        client = LiveClient(
            *(name, token, connect, lambda welcome: joining.set_up(welcome, executor, print_text)),
            samples=len(joining.own),
            patience_s=patience_s,
            tell=tell,
        )
        running = asyncio.ensure_future(client.run())
        leaving: list[asyncio.Task[None]] = []

        def leave() -> None:
            leaving.append(asyncio.ensure_future(client.leave()))

        with Interrupts() as interrupts, interrupts.ending(leave):
            try:
                await running
            finally:
                await asyncio.gather(*leaving)
    return client
