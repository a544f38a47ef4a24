"""`asyncfl live here`: run server and clients on this machine."""

from __future__ import annotations

import asyncio
import secrets
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
    from asyncfl.federation.seed_run import SeedRun
    from asyncfl.live.clock import Terms
    from asyncfl.live.interrupts import Interrupts


def here(
    scenario: ScenarioFile,
    out: Out = None,
    set_: Assignments = None,
    shape: Shape = False,
    speedup: Speedup = 1.0,
    workers: Annotated[int, typer.Option(help="Clients that train at the same time.", min=1, max=256)] = 2,
    virtual: Annotated[
        bool,
        typer.Option(
            "--virtual",
            help="Run the asyncio event loop on simulated time, as fast as it trains. Implies --shape; events, "
            "numbers and ledger are those of `asyncfl run`.",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no line for each model version.")] = False,
) -> None:
    """Run server and clients on this machine, in real time or on simulated time.

    The clients really train. Writes what `asyncfl run` writes.

    Example: asyncfl live here scenario.yaml --shape --speedup 10
    """
    if virtual and speedup != 1:
        raise typer.BadParameter("--virtual does not wait, so that --speedup has no meaning; leave one of them out")
    description = read_scenario(scenario, set_ or [])
    folder = out or Path("results/live") / time.strftime("%Y%m%d-%H%M%S")
    limit_threads()
    from asyncfl.api import run_of
    from asyncfl.federation.storage import LIVE, RunFolder
    from asyncfl.live import virtual_loop
    from asyncfl.live.clock import Terms
    from asyncfl.live.interrupts import Interrupts

    RunFolder(folder, description, LIVE).check_new()
    print_text(f"data: {data_line(description.data)}")
    print_log(quiet=True)
    terms = Terms(shape=shape or virtual, speedup=speedup, virtual=virtual)
    run = virtual_loop.run if virtual else asyncio.run
    parts = []
    with Interrupts() as interrupts:
        for seed in description.seeds:
            seed_run = run(_run_seed(description, seed, terms, workers, quiet, interrupts))
            parts.append(run_of(description, seed_run))
            result = save_seeds(description, parts, folder)
            if interrupts.came:
                break
    print_result(result, folder)


async def _run_seed(
    scenario: Scenario, seed: int, terms: Terms, workers: int, quiet: bool, interrupts: Interrupts
) -> SeedRun:
    """Run one seed with in-memory connections. Ctrl-C ends it like its time limit."""
    from concurrent.futures import ThreadPoolExecutor

    from asyncfl.base.streams import Streams, unknown_seed
    from asyncfl.federation.prepare import Federation
    from asyncfl.federation.resolve import resolve
    from asyncfl.live.host import Host
    from asyncfl.live.interrupts import INTERRUPTED
    from asyncfl.live.run import Round, local_clients, run_live
    from asyncfl.live.transport import Memory
    from asyncfl.simulation import SimulatedRuns

    tokens = {str(client): secrets.token_urlsafe() for client in range(scenario.data.clients)}

    def connect(federation: Federation) -> Round:
        streams = federation.resolved.streams if terms.shape else Streams(unknown_seed())

        async def run_clients(host: Host) -> None:
            memory = Memory(host.serve)
            with interrupts.ending(partial(host.end, INTERRUPTED)), ThreadPoolExecutor(workers, "training") as executor:
                clients = local_clients(
                    federation,
                    terms,
                    tokens,
                    memory.connect,
                    executor,
                    streams,
                    host.observe if terms.virtual else None,
                )
                await asyncio.gather(*[client.run() for client in clients])
            await memory.close()

        return run_clients

    resolved = await asyncio.get_running_loop().run_in_executor(None, resolve, scenario, seed, SimulatedRuns())
    progress = None if quiet else print_version
    return await run_live(resolved, terms, tokens, connect, secret=unknown_seed(), progress=progress)
