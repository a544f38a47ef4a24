"""`asyncfl live serve`: run the server of a federation over several machines."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asyncfl.cli.live_options import Out, Shape, Speedup
from asyncfl.cli.live_output import limit_threads, print_log, print_result, print_version, save_seeds
from asyncfl.cli.options import Assignments, ScenarioFile
from asyncfl.cli.output import print_text
from asyncfl.cli.run import data_line, read_scenario
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    from ssl import SSLContext

    from asyncfl.federation.seed_run import SeedRun
    from asyncfl.live.clock import Terms
    from asyncfl.live.interrupts import Interrupts


def serve(
    scenario: ScenarioFile,
    keys: Annotated[Path, typer.Option(help="Folder that asyncfl live keys has written.")],
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0: all addresses of this machine.")
    ] = "0.0.0.0",
    port: Annotated[int, typer.Option(help="Port to listen at; 0: any free port.", min=0, max=65535)] = 8765,
    at_least: Annotated[
        int | None,
        typer.Option(
            help="Clients to wait for before the first task. Default: the updates that one version needs.", min=1
        ),
    ] = None,
    out: Out = None,
    set_: Assignments = None,
    shape: Shape = False,
    speedup: Speedup = 1.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no line for each model version or client.")] = False,
) -> None:
    """Run the server; clients join from other machines.

    Writes what `asyncfl run` writes.

    Example: asyncfl live serve scenario.yaml --keys keys --port 8765
    """
    description = read_scenario(scenario, set_ or [])
    folder = out or Path("results/live") / time.strftime("%Y%m%d-%H%M%S")
    limit_threads()
    from asyncfl.api import run_of
    from asyncfl.federation.storage import LIVE, RunFolder
    from asyncfl.live.clock import Terms
    from asyncfl.live.interrupts import Interrupts
    from asyncfl.live.keys import read_tokens, server_context

    RunFolder(folder, description, LIVE).check_new()
    tokens, tls = read_tokens(keys), server_context(keys)
    wanted = min(description.participants if at_least is None else at_least, description.data.clients)
    print_text(f"test data: {data_line(description.data)}")
    print_log(quiet)
    terms = Terms(shape=shape, speedup=speedup)

    with Interrupts() as interrupts:
        seed_run = asyncio.run(_run_seed(description, terms, tokens, (host, port, tls), wanted, quiet, interrupts))
        result = save_seeds(description, [run_of(description, seed_run)], folder)
    print_result(result, folder)


async def _run_seed(
    scenario: Scenario,
    terms: Terms,
    tokens: dict[str, str],
    place: tuple[str, int, SSLContext],
    wanted: int,
    quiet: bool,
    interrupts: Interrupts,
) -> SeedRun:
    """Run the scenario's first seed with the clients that connect. Ctrl-C ends it like its time limit."""
    from asyncfl.base.streams import unknown_seed
    from asyncfl.federation.prepare import Federation
    from asyncfl.federation.resolve import resolve
    from asyncfl.live.host import Host
    from asyncfl.live.interrupts import INTERRUPTED
    from asyncfl.live.run import Round, run_live
    from asyncfl.live.sockets import listening
    from asyncfl.live.wire import server_decoder
    from asyncfl.simulation import SimulatedRuns

    address, port, tls = place

    def connect(federation: Federation) -> Round:
        longest = server_decoder(federation.learner.n_parameters).limits.frame_bytes

        async def listen(host: Host) -> None:
            with interrupts.ending(partial(host.end, INTERRUPTED)):
                async with listening(host.serve, address, port, longest, tls) as found:
                    print_text(f"listening at {address}:{found}; the run begins with {wanted} of {len(tokens)} clients")
                    await host.over.wait()

        return listen

    [seed] = scenario.seeds[:1]
    resolved = await asyncio.get_running_loop().run_in_executor(None, resolve, scenario, seed, SimulatedRuns())
    progress = None if quiet else print_version
    return await run_live(
        resolved, terms, tokens, connect, secret=unknown_seed(), at_least=wanted, known=False, progress=progress
    )
