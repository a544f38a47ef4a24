"""`asyncfl live here` and `asyncfl live serve`: servers of live federations, and what all of them print."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from asyncfl.base.quantities import quantity
from asyncfl.cli.options import Assignments, ScenarioFile, limit_threads
from asyncfl.cli.output import console, print_text
from asyncfl.cli.run import data_line, print_summary, read_scenario
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    from ssl import SSLContext

    from asyncfl.federation.seed_run import SeedRun
    from asyncfl.federation.storage import Run
    from asyncfl.live.clock import Terms
    from asyncfl.live.interrupts import Interrupts


Out: TypeAlias = Annotated[Path | None, typer.Option(help="Folder to write: new or empty. Default: results/live/TIME.")]
Shape: TypeAlias = Annotated[
    bool, typer.Option("--shape", help="Slow clients down to the devices and links of the scenario's world.")
]
Speedup: TypeAlias = Annotated[float, typer.Option(help="Seconds of the scenario per real second.", min=0.001, max=1e6)]


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
            seed_run = run(_run_here(description, seed, terms, workers, quiet, interrupts))
            parts.append(run_of(description, seed_run))
            result = save_seeds(description, parts, folder)
            if interrupts.came:
                break
    print_result(result, folder)


async def _run_here(
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
        seed_run = asyncio.run(_run_served(description, terms, tokens, (host, port, tls), wanted, quiet, interrupts))
        result = save_seeds(description, [run_of(description, seed_run)], folder)
    print_result(result, folder)


async def _run_served(
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


class _PrintHandler(logging.Handler):
    """Logging handler that prints to standard output."""

    def emit(self, record: logging.LogRecord) -> None:
        print_text(record.getMessage())


def print_log(quiet: bool) -> None:
    """Print the log of a live server: warnings, and unless `quiet` each client that connects or disconnects."""
    log = logging.getLogger("asyncfl.live")
    log.handlers = [_PrintHandler()]
    log.propagate = False
    log.setLevel(logging.WARNING if quiet else logging.INFO)


def save_seeds(scenario: Scenario, parts: Sequence[Run], folder: Path) -> Run:
    """Gather the finished seeds into one run, write it into `folder`, and return it."""
    from asyncfl.api import gather
    from asyncfl.federation.storage import LIVE

    result = gather(scenario, parts)
    result.save(folder, holds=LIVE)
    return result


def print_result(result: Run, folder: Path) -> None:
    """Print the final values of a run, and its folder."""
    print_summary(result)
    console.print(f"{folder} written")


def print_version(row: dict[str, Any], in_flight: int) -> None:
    """Print one line for a model version; `row` is of the table of rounds."""
    name, label = ("test_r2", "R²") if "test_r2" in row else ("test_accuracy", "accuracy")
    quality, staleness = row[name], row["staleness_mean"]
    print_text(
        f"version {row['version']}  {quantity(row['time_s'], 's')}  "
        f"{label} {'-' if math.isnan(quality) else f'{quality:.3f}'}  "
        f"staleness {'-' if math.isnan(staleness) else f'{staleness:.1f} versions'}  "
        f"{in_flight} in flight  {quantity(row['bytes_up'], 'bytes')} up  {quantity(row['bytes_down'], 'bytes')} down"
    )
