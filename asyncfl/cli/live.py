"""`asyncfl live`: run a scenario as a real federation, in real time, on one machine or several."""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asyncfl.base.component import own_files
from asyncfl.base.errors import AsyncflError, Fault, ScenarioError
from asyncfl.base.own_classes import look_for_modules_in
from asyncfl.cli.live_server import here, serve
from asyncfl.cli.options import Assignments, CommandGroup, ScenarioFile, argument, limit_threads, option
from asyncfl.cli.output import console, print_table, print_text
from asyncfl.cli.run import read_scenario

if TYPE_CHECKING:
    from asyncfl.live.client import LiveClient
    from asyncfl.live.connections import Connect
    from asyncfl.live.task_runner import ClientSetup
    from asyncfl.live.wire import Welcome

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


class LiveError(AsyncflError):
    """Failure of a client, such as a lost connection."""


class _TermsSeenError(AsyncflError):
    """Ends the connection over which a client has learned its server's terms."""

    def __init__(self, welcome: Welcome) -> None:
        self.welcome = welcome


def join(
    url: Annotated[str, argument("URL", "Address of the server: wss://host:port.")],
    data: Annotated[Path, option("npz file with x_train and y_train. It stays on this machine.")],
    token: Annotated[Path, option("File with the name and token of this client.")],
    certificate: Annotated[Path | None, option("Server's certificate. Default: the machine's authorities.")] = None,
    scenario: Annotated[Path | None, option("Join only this scenario. Default: the server's, once confirmed.")] = None,
    shape: Annotated[bool, option("Agree to wait as the scenario's world says.", "--shape")] = False,
    yes: Annotated[bool, option("Agree to the server's scenario without being asked.", "--yes")] = False,
    memory: Annotated[
        Path | None,
        option("File for what the client must not forget, such as spent budget. Default: beside the token."),
    ] = None,
    give_up_after: Annotated[float, option("Seconds to try to reach the server.", min=0, max=1e9)] = 600.0,
    quiet: Annotated[bool, option("Print no line for each task.", "--quiet")] = False,
) -> None:
    """Join a federation as a client; the samples stay on this machine.

    With --scenario the server can ask for nothing else. Without it, shows what the server asks for, and asks you to
    confirm that.

    Example: asyncfl live join wss://fed.example.org:8765 --data ann.npz --token ann.token --certificate certificate.pem
    """
    if not re.fullmatch(r"wss://[^/\s?#@]+:\d{1,5}/?", url):
        raise ScenarioError([Fault("", f"the server's address must be wss://host:port, got {url!r}")])
    if scenario is None and not (yes or sys.stdin.isatty()):
        text = "is needed where there is no terminal to confirm the server's scenario at; or say --yes"
        raise ScenarioError([Fault("--scenario", text)])
    limit_threads()
    from asyncfl.data.client_file import ClientFile
    from asyncfl.live.client_memory import ClientMemoryFile
    from asyncfl.live.connections import to
    from asyncfl.live.joining import Agreement, load_agreed, set_up, terms_of
    from asyncfl.live.keys import client_context, read_token
    from asyncfl.live.wire import WELCOME_BYTES

    (name, secret), tls = read_token(token), client_context(certificate)
    if scenario is not None:
        look_for_modules_in(scenario.parent)
    own, agreed = ClientFile(data), Agreement(None if scenario is None else load_agreed(scenario), shape)
    print_text(f"{name}: {len(own)} samples in {data}, which stay on this machine")
    kept = ClientMemoryFile(memory or token.with_suffix(".memory"), name)
    tell = None if quiet else print_text
    options: dict[str, Any] = {"samples": len(own), "patience_s": give_up_after, "tell": tell, "memory_file": kept}
    options |= {"instance": secrets.token_hex(8)}
    run = partial(_run_client, name, secret, to(url, WELCOME_BYTES, tls))
    if scenario is None:
        try:
            _print_end(asyncio.run(run(_see_terms, options)))
            return
        except _TermsSeenError as seen:
            agreed = replace(agreed, shown=seen.welcome)
            print_table(["", "what the server asks for"], list(terms_of(seen.welcome, own, agreed).items()))
        if not yes:
            typer.confirm("Take part?", abort=True)
    _print_end(asyncio.run(run(partial(set_up, own=own, agreed=agreed, tell=print_text), options)))


def _see_terms(welcome: Welcome, executor: Executor) -> ClientSetup:
    raise _TermsSeenError(welcome)


def _print_end(client: LiveClient) -> None:
    """Print why a client has ended. Raises LiveError where neither the client nor the end of the run is the reason."""
    from asyncfl.live.client import LEFT

    if not client.ended_well:
        # On one line: a server's reason must not look like a message of ours.
        raise LiveError(" ".join(str(client.over).split()))
    print_text(f"{client.name}: left" if client.over == LEFT else f"{client.name}: the run is over, {client.over}")


async def _run_client(
    name: str, token: str, connect: Connect, prepare: Callable[..., ClientSetup], options: dict[str, Any]
) -> LiveClient:
    """Run the client until it has left or the run is over; return it. `options`: of `LiveClient`."""
    from concurrent.futures import ThreadPoolExecutor

    from asyncfl.live.client import LiveClient
    from asyncfl.live.interrupts import Interrupts

    with ThreadPoolExecutor(1, "training") as executor:
        client = LiveClient(name, token, connect, partial(prepare, executor=executor), **options)
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


def flower(
    scenario: ScenarioFile,
    out: Annotated[Path, option("Folder of the app: new, empty or an app of the same scenario.")],
    set_: Assignments = None,
    results: Annotated[Path, option("Folder for the app's runs, on the machine of the SuperLink.")] = Path(
        "results/live"
    ),
    timeout_s: Annotated[float, option("Seconds to wait for the answer to a message.", min=1)] = 3600.0,
    force: Annotated[bool, option("Replace the app of another scenario.", "--force")] = False,
) -> None:
    """Write a Flower app that runs the scenario's federation.

    Example: asyncfl live flower scenario.yaml --out app
    """
    description = read_scenario(scenario, set_ or [])
    from asyncfl.federation.prepare import privacy_context, resolve
    from asyncfl.live.faults import live_faults
    from asyncfl.live.flower.app_folder import write_app
    from asyncfl.simulation import SimulatedRuns

    resolved = resolve(description, description.seeds[0], SimulatedRuns())
    sizes = description.data.client_sizes(resolved.streams)
    if faults := list(live_faults(resolved.scenario, privacy_context(resolved, sizes))):
        raise ScenarioError(faults)
    if description.model.initial is not None:
        # The server may be started in another working directory.
        place = Path(description.model.initial).expanduser().resolve()
        description = description.override({"model.initial": str(place)})
    modules = own_files(description)
    beside = {name: path for name, path in modules.items() if "." not in name}
    write_app(out, description, results.resolve(), timeout_s, beside.values(), force=force)
    console.print(f"{out} written")
    if packages := sorted({name.partition(".")[0] for name in modules.keys() - beside.keys()}):
        print_text(f"note: {', '.join(packages)} must be installed where the SuperLink and the SuperNodes run")
    print_text(f"For each client N (0..{description.data.clients - 1}), where its SuperNode is to run:")
    console.print("  flower-supernode --insecure --superlink HOST:8000 --node-config partition-id=N")
    print_text("Then, NAME being the connection to the SuperLink in Flower's configuration:")
    console.print(f"  flwr run {shlex.quote(str(out))} NAME --stream")


app = typer.Typer(cls=LiveGroup, no_args_is_help=True, help=HELP)
for _command in (here, serve, join, keys, flower):
    app.command(_command.__name__)(_command)
