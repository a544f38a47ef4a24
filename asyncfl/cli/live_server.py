"""`asyncfl live here`, `asyncfl live serve`, and the server of a Flower app, with what all of them print."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from asyncfl.base.files.yaml_text import read_text
from asyncfl.base.quantities import quantity
from asyncfl.cli.options import Assignments, ScenarioFile, limit_threads, option
from asyncfl.cli.output import console, print_text
from asyncfl.cli.run import data_line, print_summary, read_scenario
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    from asyncfl.federation.seed_run import SeedRun

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
    from asyncfl.live.run import run_here

    print_text(f"data: {data_line(description.data)}")
    _print_log(quiet=True)
    hold = partial(run_here, terms=Terms(shape=shape or virtual, speedup=speedup, virtual=virtual), workers=workers)
    _run_seeds(description, description.seeds, folder, hold, quiet, virtual_loop.run if virtual else None)


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
    from asyncfl.live.keys import read_tokens, server_context
    from asyncfl.live.run import run_served

    tokens, address = read_tokens(keys), (host, port, server_context(keys))
    wanted = min(description.participants if at_least is None else at_least, description.data.clients)
    print_text(f"test data: {data_line(description.data)}")
    _print_log(quiet)

    def listens(port: int) -> None:
        print_text(f"listening at {host}:{port}; the run begins with {wanted} of {len(tokens)} clients")

    terms = Terms(shape=shape, speedup=speedup)
    hold = partial(run_served, terms=terms, tokens=tokens, address=address, listens=listens, at_least=wanted)
    _run_seeds(description, description.seeds[:1], folder, hold, quiet)


def serve_grid(grid: Any, config: Mapping[str, Any]) -> None:
    """Run all seeds of the scenario one after another, and write the run. The server of a Flower app calls this.

    Args:
        grid: Flower's `Grid`, through which the server exchanges messages with the SuperNodes.
        config: Configuration of the app: `scenario`, `results`, `timeout-s`.
    """
    scenario = Scenario.read(read_text(str(config["scenario"]), "the scenario of the app"))
    folder = _new_folder(scenario, Path(str(config["results"])))
    _print_log(quiet=False)
    from asyncfl.live.flower.nodes import GRID_ENDED, run_on_grid
    from asyncfl.live.flower.records import GridTransport

    print_text(f"data: {data_line(scenario.data)}")
    print_text(f"waiting for {scenario.data.clients} SuperNodes with partition-id=0..{scenario.data.clients - 1}")
    hold = partial(run_on_grid, grid=GridTransport(grid, float(config["timeout-s"])))
    _run_seeds(scenario, scenario.seeds, folder, hold, ends=GRID_ENDED)


# --- all live servers -------------------------------------------------------------------------------------------------


def _prepare(file: Path, assignments: list[str] | None, out: Path | None) -> tuple[Scenario, Path]:
    """Read the scenario, and check the folder to write. Raises ScenarioError and OutputError."""
    scenario = read_scenario(file, assignments or [])
    return scenario, _new_folder(scenario, Path("results/live"), out)


def _new_folder(scenario: Scenario, above: Path, folder: Path | None = None) -> Path:
    limit_threads()
    from asyncfl.federation.storage import LIVE, RunFolder

    folder = folder or above / time.strftime("%Y%m%d-%H%M%S")
    RunFolder(folder, scenario, LIVE).check_new()
    return folder


def _run_seeds(
    scenario: Scenario,
    seeds: Sequence[int],
    folder: Path,
    hold: Callable[..., Coroutine[Any, Any, SeedRun]],
    quiet: bool = False,
    run_loop: Callable[[Coroutine[Any, Any, SeedRun]], SeedRun] | None = None,
    ends: str | None = None,
) -> None:
    """Run seeds one after another; write all finished ones after each, and print their results.

    Ctrl-C ends a seed like its time limit, and none begins after it, nor after one whose reason to stop begins with
    `ends`. `hold`: runs a seed, as `run_live` does. `run_loop`: None for `asyncio.run`.
    """
    from asyncfl.api import gather, run_of
    from asyncfl.federation.prepare import resolve
    from asyncfl.federation.storage import LIVE
    from asyncfl.live.interrupts import Interrupts
    from asyncfl.simulation import SimulatedRuns

    parts, progress = [], None if quiet else _print_version
    with Interrupts() as interrupts:
        for seed in seeds:
            resolved = resolve(scenario, seed, SimulatedRuns())
            run = (run_loop or asyncio.run)(hold(resolved, interrupts=interrupts, progress=progress))
            parts.append(run_of(scenario, run))
            result = gather(scenario, parts)
            result.save(folder, holds=LIVE)
            if interrupts.came or (ends is not None and run.stopped.startswith(ends)):
                break
        print_summary(result)
        console.print(f"{folder} written")


class _PrintHandler(logging.Handler):
    """Logging handler that prints to standard output."""

    def emit(self, record: logging.LogRecord) -> None:
        print_text(record.getMessage())


def _print_log(quiet: bool) -> None:
    """Print the log of a live server: warnings, and unless `quiet` each client that connects or disconnects."""
    log = logging.getLogger("asyncfl.live")
    log.handlers = [_PrintHandler()]
    log.propagate = False
    log.setLevel(logging.WARNING if quiet else logging.INFO)


def _print_version(row: dict[str, Any], in_flight: int) -> None:
    """Print one line for a model version; `row` is of the table of rounds."""
    name, label = ("test_r2", "R²") if "test_r2" in row else ("test_accuracy", "accuracy")
    quality, staleness = row[name], row["staleness_mean"]
    print_text(
        f"version {row['version']}  {quantity(row['time_s'], 's')}  "
        f"{label} {'-' if math.isnan(quality) else f'{quality:.3f}'}  "
        f"staleness {'-' if math.isnan(staleness) else f'{staleness:.1f} versions'}  "
        f"{in_flight} in flight  {quantity(row['bytes_up'], 'bytes')} up  {quantity(row['bytes_down'], 'bytes')} down"
    )
