"""`asyncfl live here` and `asyncfl live serve`: servers of live federations, and what all of them print."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from asyncfl.base.quantities import quantity
from asyncfl.cli.options import Assignments, ScenarioFile, limit_threads, option
from asyncfl.cli.output import console, print_text
from asyncfl.cli.run import data_line, print_summary, read_scenario
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    from ssl import SSLContext

    from asyncfl.federation.prepare import ResolvedSeed
    from asyncfl.federation.seed_run import SeedRun
    from asyncfl.live.clock import Terms
    from asyncfl.live.interrupts import Interrupts


Out: TypeAlias = Annotated[Path | None, option("Folder to write: new or empty. Default: results/live/TIME.")]
Shape: TypeAlias = Annotated[bool, option("Slow clients down as the scenario's world does.", "--shape")]
Speedup: TypeAlias = Annotated[float, option("Seconds of the scenario per real second.", min=0.001, max=1e6)]


def here(
    scenario: ScenarioFile,
    out: Out = None,
    set_: Assignments = None,
    shape: Shape = False,
    speedup: Speedup = 1.0,
    workers: Annotated[int, option("Clients that train at the same time.", min=1, max=256)] = 2,
    virtual: Annotated[
        bool,
        option(
            "Run the asyncio event loop on simulated time, as fast as it trains. Implies --shape; events, numbers and "
            "ledger are those of `asyncfl run`.",
            "--virtual",
        ),
    ] = False,
    quiet: Annotated[bool, option("Print no line for each model version.", "--quiet")] = False,
) -> None:
    """Run server and clients on this machine, in real time or on simulated time.

    The clients really train. Writes what `asyncfl run` writes.

    Example: asyncfl live here scenario.yaml --shape --speedup 10
    """
    if virtual and speedup != 1:
        raise typer.BadParameter("--virtual does not wait, so that --speedup has no meaning; leave one of them out")
    description, folder = _prepare(scenario, set_, out)
    from asyncfl.live import virtual_loop
    from asyncfl.live.clock import Terms
    from asyncfl.live.interrupts import Interrupts

    print_text(f"data: {data_line(description.data)}")
    print_log(quiet=True)
    terms = Terms(shape=shape or virtual, speedup=speedup, virtual=virtual)
    run = virtual_loop.run if virtual else asyncio.run
    with Interrupts() as interrupts:
        run_seeds(
            *(description, description.seeds, folder),
            lambda seed: run(_run_here(description, seed, terms, workers, quiet, interrupts)),
            lambda _: bool(interrupts.came),
        )


async def _run_here(
    scenario: Scenario, seed: int, terms: Terms, workers: int, quiet: bool, interrupts: Interrupts
) -> SeedRun:
    """Run one seed with in-memory connections. Ctrl-C ends it like its time limit."""
    from concurrent.futures import ThreadPoolExecutor

    from asyncfl.base.streams import Streams, unknown_seed
    from asyncfl.federation.prepare import Federation
    from asyncfl.live.host import Host
    from asyncfl.live.interrupts import INTERRUPTED
    from asyncfl.live.run import Round, local_clients, run_live
    from asyncfl.live.transport import Memory

    tokens = {str(client): secrets.token_urlsafe() for client in range(scenario.data.clients)}

    def connect(federation: Federation) -> Round:
        streams = federation.resolved.streams if terms.shape else Streams(unknown_seed())

        async def run_clients(host: Host) -> None:
            memory = Memory(host.serve)
            observe = host.observe if terms.virtual else None
            with interrupts.ending(partial(host.end, INTERRUPTED)), ThreadPoolExecutor(workers, "training") as executor:
                clients = local_clients(federation, terms, tokens, memory.connect, executor, streams, observe)
                await asyncio.gather(*[client.run() for client in clients])
            await memory.close()

        return run_clients

    progress = None if quiet else print_version
    resolved = await _resolved(scenario, seed)
    return await run_live(resolved, terms, tokens, connect, secret=unknown_seed(), progress=progress)


def serve(
    scenario: ScenarioFile,
    keys: Annotated[Path, option("Folder that asyncfl live keys has written.")],
    host: Annotated[str, option("Address to listen at; 0.0.0.0: all addresses of this machine.")] = "0.0.0.0",
    port: Annotated[int, option("Port to listen at; 0: any free port.", min=0, max=65535)] = 8765,
    at_least: Annotated[int | None, option("Clients to wait for. Default: the updates of one version.", min=1)] = None,
    out: Out = None,
    set_: Assignments = None,
    shape: Shape = False,
    speedup: Speedup = 1.0,
    quiet: Annotated[bool, option("Print no line for each model version or client.", "--quiet")] = False,
) -> None:
    """Run the server; clients join from other machines.

    Writes what `asyncfl run` writes.

    Example: asyncfl live serve scenario.yaml --keys keys --port 8765
    """
    description, folder = _prepare(scenario, set_, out)
    from asyncfl.live.clock import Terms
    from asyncfl.live.interrupts import Interrupts
    from asyncfl.live.keys import read_tokens, server_context

    tokens, place = read_tokens(keys), (host, port, server_context(keys))
    wanted = min(description.participants if at_least is None else at_least, description.data.clients)
    print_text(f"test data: {data_line(description.data)}")
    print_log(quiet)
    terms = Terms(shape=shape, speedup=speedup)
    with Interrupts() as interrupts:
        run_seeds(
            *(description, description.seeds[:1], folder),
            lambda seed: asyncio.run(_run_served(description, seed, terms, tokens, place, wanted, quiet, interrupts)),
            lambda _: True,
        )


async def _run_served(
    scenario: Scenario,
    seed: int,
    terms: Terms,
    tokens: dict[str, str],
    place: tuple[str, int, SSLContext],
    wanted: int,
    quiet: bool,
    interrupts: Interrupts,
) -> SeedRun:
    """Run one seed with the clients that connect. Ctrl-C ends it like its time limit."""
    from asyncfl.base.streams import unknown_seed
    from asyncfl.federation.prepare import Federation
    from asyncfl.live.host import Host
    from asyncfl.live.interrupts import INTERRUPTED
    from asyncfl.live.run import Round, run_live
    from asyncfl.live.sockets import listening
    from asyncfl.live.wire import server_decoder

    address, port, tls = place

    def connect(federation: Federation) -> Round:
        longest = server_decoder(federation.learner.n_parameters).limits.frame_bytes

        async def listen(host: Host) -> None:
            with interrupts.ending(partial(host.end, INTERRUPTED)):
                async with listening(host.serve, address, port, longest, tls) as found:
                    print_text(f"listening at {address}:{found}; the run begins with {wanted} of {len(tokens)} clients")
                    await host.over.wait()

        return listen

    progress = None if quiet else print_version
    resolved = await _resolved(scenario, seed)
    return await run_live(
        resolved, terms, tokens, connect, secret=unknown_seed(), at_least=wanted, known=False, progress=progress
    )


# --- all live servers -------------------------------------------------------------------------------------------------


def _prepare(file: Path, assignments: list[str] | None, out: Path | None) -> tuple[Scenario, Path]:
    """Read the scenario, and check the folder to write. Raises ScenarioError and OutputError."""
    scenario = read_scenario(file, assignments or [])
    limit_threads()
    from asyncfl.federation.storage import LIVE, RunFolder

    folder = out or Path("results/live") / time.strftime("%Y%m%d-%H%M%S")
    RunFolder(folder, scenario, LIVE).check_new()
    return scenario, folder


def _resolved(scenario: Scenario, seed: int) -> asyncio.Future[ResolvedSeed]:
    """Resolve a scenario in a thread, since reading data takes long."""
    from asyncfl.federation.prepare import resolve
    from asyncfl.simulation import SimulatedRuns

    return asyncio.get_running_loop().run_in_executor(None, resolve, scenario, seed, SimulatedRuns())


def run_seeds(
    scenario: Scenario,
    seeds: Sequence[int],
    folder: Path,
    run_seed: Callable[[int], SeedRun],
    is_over: Callable[[SeedRun], bool],
) -> None:
    """Run seeds one after another until one `is_over`; write all finished ones after each, and print their results."""
    from asyncfl.api import gather, run_of
    from asyncfl.federation.storage import LIVE

    parts = []
    for seed in seeds:
        run = run_seed(seed)
        parts.append(run_of(scenario, run))
        result = gather(scenario, parts)
        result.save(folder, holds=LIVE)
        if is_over(run):
            break
    print_summary(result)
    console.print(f"{folder} written")


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
