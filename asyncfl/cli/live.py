"""`asyncfl live`: a scenario as a real federation, in real time, on this machine or on several."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from asyncfl.cli.output import console, print_text
from asyncfl.cli.run import data_line, read_scenario, report
from asyncfl.quantities import quantity
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    from asyncfl.federation.seed_run import SeedRun
    from asyncfl.live.host import Terms


HERE = "here"
"""The command that a scenario without one is given to."""


class Group(TyperGroup):
    """Commands of which the name of one may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words that are left, with the command's name."""
        if args and args[0] not in (*self.commands, *self.get_help_option_names(ctx)):
            args = [HERE, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Hold a federation in real time. `asyncfl live scenario.yaml` is short for `asyncfl live here scenario.yaml`.",
)


@app.command(HERE)
def here(
    scenario: Annotated[Path, typer.Argument(help="YAML file of a scenario")],
    out: Annotated[
        Path | None, typer.Option(help="folder to write, new or empty; default: results/live/<time>")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="field=value, e.g. protocol.rounds=20")] = None,
    shape: Annotated[
        bool, typer.Option("--shape", help="clients wait as devices and links of the scenario's world say")
    ] = False,
    speedup: Annotated[float, typer.Option(help="seconds of the scenario in a second", min=0.001, max=1e6)] = 1.0,
    workers: Annotated[int, typer.Option(help="clients that train at the same time", min=1, max=256)] = 2,
    quiet: Annotated[bool, typer.Option("--quiet", help="no line per version")] = False,
) -> None:
    """Hold a federation on this machine: a server and its clients, which really train. Writes what `run` writes.

    Example: asyncfl live scenario.yaml --shape --speedup 10
    """
    description = read_scenario(scenario, set_ or [])
    folder = out or Path("results/live") / time.strftime("%Y%m%d-%H%M%S")
    # Clients train beside each other, each on one thread.
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    from asyncfl.api import gather, run_of
    from asyncfl.live.host import Terms
    from asyncfl.storage import RunFolder

    RunFolder(folder, description).check()
    print_text(f"data: {data_line(description.data)}")
    terms = Terms(shape=shape, speedup=speedup)
    parts = []
    for seed in description.seeds:
        held = asyncio.run(_held(description, seed, terms, workers, quiet))
        parts.append(run_of(description, held))
        if held.stopped == INTERRUPTED:
            break
    result = gather(description, parts)
    result.save(folder)
    report(result)
    console.print(f"{folder} written")


INTERRUPTED = "interrupted"


async def _held(scenario: Scenario, seed: int, terms: Terms, workers: int, quiet: bool) -> SeedRun:
    """One seed, held in memory. Ctrl-C ends it as if its time were up."""
    from concurrent.futures import ThreadPoolExecutor

    from asyncfl.federation.prepare import Federation
    from asyncfl.federation.resolve import resolve
    from asyncfl.live.host import Host
    from asyncfl.live.run import Round, hold, local_clients
    from asyncfl.live.transport import Memory
    from asyncfl.simulation import SimulatedRuns
    from asyncfl.streams import Streams

    secret = secrets.randbits(63)
    tokens = {str(client): secrets.token_urlsafe(16) for client in range(scenario.data.clients)}

    def around(federation: Federation) -> Round:
        streams = federation.resolved.streams if terms.shape else Streams(secrets.randbits(63))

        async def everybody(host: Host) -> None:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGINT, host.end, INTERRUPTED)
            memory = Memory(host.serve)
            try:
                with ThreadPoolExecutor(workers, "training") as executor:
                    clients = local_clients(federation, terms, tokens, memory.connect, executor, streams)
                    await asyncio.gather(*[client.run() for client in clients])
                await memory.close()
            finally:
                loop.remove_signal_handler(signal.SIGINT)

        return everybody

    resolved = await asyncio.get_running_loop().run_in_executor(None, resolve, scenario, seed, SimulatedRuns())
    progress = None if quiet else _line
    return await hold(resolved, terms, tokens, around, secret=secret, progress=progress)


def _line(row: dict[str, Any], in_flight: int) -> None:
    """A line for a version."""
    accuracy, staleness = row["test_accuracy"], row["staleness_mean"]
    print_text(
        f"version {row['version']}  {quantity(row['time_s'], 's')}  "
        f"accuracy {'-' if math.isnan(accuracy) else f'{accuracy:.3f}'}  "
        f"staleness {'-' if math.isnan(staleness) else f'{staleness:.1f} versions'}  "
        f"{in_flight} in flight  {quantity(row['bytes_up'], 'bytes')} up  {quantity(row['bytes_down'], 'bytes')} down"
    )
