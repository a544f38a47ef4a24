"""`asyncfl live here`, `asyncfl live serve`, and the server of a Flower app, with what all of them print."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from asyncfl.base.errors import OutputError
from asyncfl.base.files.yaml_text import read_text
from asyncfl.base.quantities import quantity
from asyncfl.cli.options import Assignments, ScenarioFile, limit_threads, option
from asyncfl.cli.output import console, print_text
from asyncfl.cli.run import data_line, print_summary, read_scenario
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    from asyncfl.federation.seed_run import SeedRun
    from asyncfl.federation.storage import Run, RunFolder

LIVE_RUNS = Path("results/live")
"""Folder of runs without --out."""

Out: TypeAlias = Annotated[Path | None, option("Folder to write: new or empty. Default: results/live/TIME.")]
Spill: TypeAlias = Annotated[
    Path | None, option("Folder to write where --out cannot be written. Default: one in the system's temporary folder.")
]
Shape: TypeAlias = Annotated[bool, option("Slow clients down as the scenario's world does.", "--shape")]
Speedup: TypeAlias = Annotated[float, option("Seconds of the scenario per real second.", min=0.001, max=1e6)]


def here(
    scenario: ScenarioFile,
    out: Out = None,
    spill: Spill = None,
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
    description = _prepare(scenario, set_)
    places = _places(description, LIVE_RUNS, out, spill, goes_on=False)
    from asyncfl.live import virtual_loop
    from asyncfl.live.clock import Terms
    from asyncfl.live.run import run_here

    print_text(f"data: {data_line(description.data)}")
    _print_log(quiet=True)
    hold = partial(run_here, terms=Terms(shape=shape or virtual, speedup=speedup, virtual=virtual), workers=workers)
    _run_seeds(description, description.seeds, places, hold, quiet, virtual_loop.run if virtual else None)


def serve(
    scenario: ScenarioFile,
    keys: Annotated[Path, option("Folder that asyncfl live keys has written.")],
    host: Annotated[str, option("Address to listen at; 0.0.0.0: all addresses of this machine.")] = "0.0.0.0",
    port: Annotated[int, option("Port to listen at; 0: any free port.", min=0, max=65535)] = 8765,
    at_least: Annotated[int | None, option("Clients to wait for. Default: the updates of one version.", min=1)] = None,
    out: Out = None,
    spill: Spill = None,
    set_: Assignments = None,
    shape: Shape = False,
    speedup: Speedup = 1.0,
    samples_at_most: Annotated[
        int | None, option("Samples that a client may bring. Default: 10 times the scenario's largest client.", min=1)
    ] = None,
    quiet: Annotated[bool, option("Print no line for each model version or client.", "--quiet")] = False,
) -> None:
    """Run the server; clients join from other machines.

    Writes what `asyncfl run` writes, and keeps the run in --out as it goes: a server that was killed goes on with the
    same command, if that names --out.

    Example: asyncfl live serve scenario.yaml --keys keys --port 8765
    """
    description = _prepare(scenario, set_)
    places = _places(description, LIVE_RUNS, out, spill, goes_on=True)
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
    hold = partial(
        run_served,
        terms=terms,
        tokens=tokens,
        address=address,
        listens=listens,
        at_least=wanted,
        samples_at_most=samples_at_most,
    )
    about = {"shape": shape, "speedup": speedup}
    _run_seeds(description, description.seeds[:1], places, hold, quiet, about=about)


def serve_grid(grid: Any, config: Mapping[str, Any]) -> None:
    """Run all seeds of the scenario one after another, and write the run. The server of a Flower app calls this.

    Args:
        grid: Flower's `Grid`, through which the server exchanges messages with the SuperNodes.
        config: Configuration of the app: `scenario`, `results`, `timeout-s`.
    """
    scenario = Scenario.read(read_text(str(config["scenario"]), "the scenario of the app"))
    limit_threads()
    places = _places(scenario, Path(str(config["results"])), None, None, goes_on=False)
    _print_log(quiet=False)
    from asyncfl.live.flower.nodes import run_on_grid
    from asyncfl.live.flower.records import GRID_ENDED

    print_text(f"data: {data_line(scenario.data)}")
    print_text(f"waiting for {scenario.data.clients} SuperNodes with partition-id=0..{scenario.data.clients - 1}")
    hold = partial(run_on_grid, grid=grid, timeout_s=float(config["timeout-s"]))
    _run_seeds(scenario, scenario.seeds, places, hold, ends=GRID_ENDED)


# --- all live servers -------------------------------------------------------------------------------------------------


def _prepare(file: Path, assignments: list[str] | None) -> Scenario:
    """Read the scenario. Raises ScenarioError."""
    scenario = read_scenario(file, assignments or [])
    limit_threads()
    return scenario


def _places(scenario: Scenario, above: Path, out: Path | None, spill: Path | None, goes_on: bool) -> list[RunFolder]:
    """Return the folders to write: the second where the first cannot be written. Raises OutputError."""
    from asyncfl.federation.storage import LIVE, RunFolder

    folder = out or above / time.strftime("%Y%m%d-%H%M%S")
    # Its name is the same when a run goes on.
    spill = spill or _private_folder(hashlib.sha256(bytes(folder.resolve())).hexdigest()[:12])
    places = [RunFolder(one, scenario, LIVE) for one in (folder, spill) if one is not None]
    for one in places:
        one.check_new(goes_on)
    return places


def _private_folder(name: str) -> Path | None:
    """Return a folder in the system's temporary one that nobody else can write to; None where there is none."""
    above = Path(tempfile.gettempdir()) / f"asyncfl-live-{os.geteuid()}"
    try:
        above.mkdir(mode=0o700, exist_ok=True)
        about = above.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o077
    return above / name if is_ours else None


def _run_seeds(
    scenario: Scenario,
    seeds: Sequence[int],
    places: Sequence[RunFolder],
    hold: Callable[..., Coroutine[Any, Any, SeedRun]],
    quiet: bool = False,
    run_loop: Callable[[Coroutine[Any, Any, SeedRun]], SeedRun] | None = None,
    ends: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> None:
    """Run seeds one after another; write all finished ones after each, and print their results.

    Ctrl-C ends a seed like its time limit, and none begins after it, nor after one whose reason to stop begins with
    `ends`. `hold`: runs a seed, as `run_live` does. `run_loop`: None for `asyncio.run`. `about`: what a journal of the
    run is recognised by; None: it has none. Raises typer.Exit: 1 where something is missing, 130 after Ctrl-C.
    """
    from asyncfl.api import gather, run_of
    from asyncfl.federation.prepare import resolve
    from asyncfl.live.interrupts import Interrupts
    from asyncfl.live.journal import Journal
    from asyncfl.simulation import SimulatedRuns

    parts, progress, missing = [], None if quiet else _print_version, list[str]()
    with ExitStack() as stack:
        areas = [(one, stack.enter_context(one.working())) for one in places[:1]]
        for one in places[1:]:
            # Where it cannot be written either, the first may do.
            with suppress(OutputError):
                areas.append((one, stack.enter_context(one.working())))
        interrupts = stack.enter_context(Interrupts())
        for seed in seeds:
            resolved = resolve(scenario, seed, SimulatedRuns())
            options = {}
            if about is not None:
                options["journal"] = Journal(
                    [area / "live" for _, area in areas], {"scenario": scenario.digest(), "seed": seed, **about}
                )
            run = (run_loop or asyncio.run)(hold(resolved, interrupts=interrupts, progress=progress, **options))
            missing += run.missing
            parts.append(run_of(scenario, run))
            result = gather(scenario, parts)
            folder = _write(result, areas)
            if interrupts.came is not None or (ends is not None and run.stopped.startswith(ends)):
                break
        print_summary(result)
        if folder is None:
            raise typer.Exit(1)
        console.print(f"{folder} written")
    for event in missing:
        print_text(f"missing in events.parquet: {event}")
    if missing or folder != places[0].folder:
        raise typer.Exit(1)
    if interrupts.came is not None:
        raise typer.Exit(128 + interrupts.came)


def _write(result: Run, areas: Sequence[tuple[RunFolder, Path]]) -> Path | None:
    """Write a run into the first folder that can be written; return that. None: there is none, which is printed."""
    from asyncfl.federation.storage import COMPLETE

    for own, area in areas:
        try:
            own.replace(area, result.write_to, COMPLETE)
        except OutputError as error:
            print_text(f"{error}")
            continue
        for _, other in areas:
            shutil.rmtree(other / "live", ignore_errors=True)
        return own.folder
    kept = [area for _, area in areas if any(area.glob("live/*.checkpoint"))]
    print_text(
        f"the tables could not be written; the run is kept in {kept[0]}: make room, and give the same command again"
        if kept
        else "the tables could not be written anywhere, and are lost"
    )
    return None


MOST_ALIKE = 10
"""Warnings of one kind that are printed in `ALIKE_S` seconds: strangers must not fill a disk."""
ALIKE_S = 10.0


class _PrintHandler(logging.Handler):
    """Logging handler that prints to standard output, with date and time. Leaves out warnings where many are alike."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
        self._alike: dict[str, tuple[float, int]] = {}
        """Text of a warning before its values -> time of the first in this period, and their number."""

    def emit(self, record: logging.LogRecord) -> None:
        left_out = ""
        if record.levelno >= logging.WARNING:
            began_s, number = self._alike.get(record.msg, (record.created, 0))
            if record.created - began_s >= ALIKE_S:
                if number > MOST_ALIKE:
                    left_out = f" ({number - MOST_ALIKE} more before it were left out)"
                began_s, number = record.created, 0
            self._alike[record.msg] = began_s, number + 1
            if number >= MOST_ALIKE:
                return
        first, *others = self.format(record).splitlines()
        print_text(first + left_out, *others)


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
