"""`asyncfl live`: run a scenario in real time or on simulated time, or write it as a Flower app."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import os
import shlex
import stat
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asyncfl.base.component import own_files
from asyncfl.base.errors import AsyncflError, OutputError, ScenarioError
from asyncfl.base.files.yaml_text import read_text
from asyncfl.base.quantities import quantity
from asyncfl.cli.options import Assignments, CommandGroup, ScenarioFile, limit_threads, number, option
from asyncfl.cli.output import console, print_text
from asyncfl.cli.run import data_line, print_summary, read_scenario
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    from asyncfl.results.storage import Run, RunFolder
    from asyncfl.simulation.seed_run import SeedRun

HELP = """Run a scenario as a real federation: its clients really train.

`asyncfl live scenario.yaml` is short for `asyncfl live here scenario.yaml`. Several machines run with Flower, see
`asyncfl live flower`.

Example: asyncfl live scenario.yaml --shape --speedup 10
"""

REMOVED = ("serve", "join", "keys")
"""Commands of earlier versions, which ran a federation over a network of asyncfl's own."""

LIVE_RUNS = Path("results/live")
"""Folder of runs without --out."""


class RemovedError(AsyncflError):
    """A command that an earlier version had."""


class LiveGroup(CommandGroup):
    """The commands of `asyncfl live`; `here` may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] in REMOVED:
            raise RemovedError(
                f"asyncfl live {args[0]} was removed: several machines run with Flower (pip install 'asyncfl[flower]', "
                "docs/live.md)"
            )
        if args and args[0] not in (*self.commands, *self.get_help_option_names(ctx)):
            args = ["here", *args]
        return super().parse_args(ctx, args)


def here(
    scenario: ScenarioFile,
    out: Annotated[Path | None, option("Folder to write: new or empty. Default: results/live/TIME.")] = None,
    spill: Annotated[
        Path | None, option("Folder to write where --out cannot be written. Default: one in the temporary folder.")
    ] = None,
    set_: Assignments = None,
    shape: Annotated[bool, option("Slow clients down as the scenario's world does.", "--shape")] = False,
    speedup: Annotated[float, number("Seconds of the scenario per real second.", min=0.001, max=1e6)] = 1.0,
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
    description = read_scenario(scenario, set_ or [])
    limit_threads()
    places = _places(description, LIVE_RUNS, out, spill)
    from asyncfl.extras.live import virtual_loop
    from asyncfl.extras.live.clock import LiveTiming
    from asyncfl.extras.live.live_run import run_here

    print_text(f"data: {data_line(description.data)}")
    _print_log(quiet=True)
    hold = partial(
        run_here, timing=LiveTiming(shape=shape or virtual, speedup=speedup, virtual=virtual), workers=workers
    )
    _run_seeds(description, description.seeds, places, hold, quiet, virtual_loop.run if virtual else None)


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
    from asyncfl.extras.live.faults import live_faults
    from asyncfl.extras.live.flower.app_folder import write_app
    from asyncfl.simulation import SimulatedRuns
    from asyncfl.simulation.prepare import privacy_context, resolve

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


def serve_grid(grid: Any, config: Mapping[str, Any]) -> None:
    """Run all seeds of the scenario one after another, and write the run. The server of a Flower app calls this.

    Args:
        grid: Flower's `Grid`, through which the server exchanges messages with the SuperNodes.
        config: Configuration of the app: `scenario`, `results`, `timeout-s`.
    """
    scenario = Scenario.read(read_text(str(config["scenario"]), "the scenario of the app"))
    limit_threads()
    places = _places(scenario, Path(str(config["results"])), None, None)
    _print_log(quiet=False)
    from asyncfl.extras.live.flower.nodes import run_on_grid
    from asyncfl.extras.live.flower.records import GRID_ENDED

    print_text(f"data: {data_line(scenario.data)}")
    print_text(f"waiting for {scenario.data.clients} SuperNodes with partition-id=0..{scenario.data.clients - 1}")
    hold = partial(run_on_grid, grid=grid, timeout_s=float(config["timeout-s"]))
    _run_seeds(scenario, scenario.seeds, places, hold, ends=GRID_ENDED)


# --- runs and their folders -------------------------------------------------------------------------------------------


def _places(scenario: Scenario, above: Path, out: Path | None, spill: Path | None) -> list[RunFolder]:
    """Return the folders to write: the second where the first cannot be written. Raises OutputError."""
    from asyncfl.results.storage import LIVE, RunFolder

    folder = out or above / time.strftime("%Y%m%d-%H%M%S")
    spill = spill or _private_folder(hashlib.sha256(bytes(folder.resolve())).hexdigest()[:12])
    places = [RunFolder(one, scenario, LIVE) for one in (folder, spill) if one is not None]
    for one in places:
        one.check_new()
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
) -> None:
    """Run seeds one after another; write all finished ones after each, and print their results.

    Ctrl-C ends a seed like its time limit, and none begins after it, nor after one whose reason to stop begins with
    `ends`. `hold`: runs a seed, as `run_live` does. `run_loop`: None for `asyncio.run`. Raises
    typer.Exit: 1 where something is missing, 130 after Ctrl-C.
    """
    from asyncfl.api import gather, run_of
    from asyncfl.extras.live.interrupts import Interrupts
    from asyncfl.simulation import SimulatedRuns
    from asyncfl.simulation.prepare import resolve

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
            run = (run_loop or asyncio.run)(hold(resolved, interrupts=interrupts, progress=progress))
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
    from asyncfl.results.storage import COMPLETE

    for own, area in areas:
        try:
            own.replace(area, result.write_to, COMPLETE)
        except OutputError as error:
            print_text(f"{error}")
            continue
        return own.folder
    print_text("the tables could not be written anywhere, and are lost")
    return None


MOST_ALIKE = 10
"""Warnings of one kind that are printed in `ALIKE_S` seconds: no node may fill a disk."""
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
    log = logging.getLogger("asyncfl.extras.live")
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


app = typer.Typer(cls=LiveGroup, no_args_is_help=True, help=HELP)
for _command in (here, flower):
    app.command(_command.__name__)(_command)
