"""`asyncfl run`: simulate one scenario."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from asyncfl.base.interrupt_signals import status_of
from asyncfl.base.own_classes import look_for_modules_in
from asyncfl.base.quantities import quantity
from asyncfl.cli.idle import idle_settings
from asyncfl.cli.options import (
    Assignments,
    MaxGib,
    MaxHours,
    Quiet,
    ScenarioFile,
    Threads,
    WorldFile,
    integer,
    limit_threads,
    option,
    read_assignments,
)
from asyncfl.cli.output import console, print_table, print_text
from asyncfl.cli.progress import ProgressBar, stderr
from asyncfl.data import DataSpec
from asyncfl.learning.kernels import TORCH
from asyncfl.scenario import Scenario


def run(
    scenario: ScenarioFile,
    out: Annotated[Path | None, option("Folder to write: new, empty or a run. Default: results/runs/HASH.")] = None,
    set_: Assignments = None,
    world: WorldFile = None,
    threads: Threads = 1,
    workers: Annotated[
        str | None,
        option(
            "Number of processes that train for this one, or Dask scheduler (tcp://HOST:PORT) whose workers do. "
            "Default: this process trains. Results do not depend on it."
        ),
    ] = None,
    until: Annotated[
        int | None, integer("Pause each seed at this model version. The next call of the command goes on.", least=1)
    ] = None,
    force: Annotated[bool, option("Compute again, and replace any run in the folder.", "--force")] = False,
    max_hours: MaxHours = 2.0,
    max_gib: MaxGib = 16.0,
    track: Annotated[
        list[str] | None,
        option("Report each model version to a tracker: tensorboard:DIR or my_module:MyTracker. May be repeated."),
    ] = None,
    json: Annotated[bool, option("Print one line of JSON for each model version, and nothing else.", "--json")] = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a scenario and write its results.

    All seeds of the scenario are simulated. Repeat an interrupted command: finished seeds are kept, and an
    unfinished one goes on from its last checkpoint.

    Example: asyncfl run scenario.yaml --set training.lr=0.1 --out run
    """
    description = read_scenario(scenario, set_ or [], world)
    folder = out or Path("results/runs") / description.digest()
    limit_threads(threads)
    from asyncfl.simulation.workers import check_workers

    asked = 0 if workers is None else check_workers(workers, least=1)
    from asyncfl.results.storage import Run, RunFolder
    from asyncfl.results.trackers import JsonLines, Trackers, read_tracker

    own = RunFolder(folder, description)
    own.check(force)
    existed = own.is_whole() and not force
    trackers = Trackers(
        [read_tracker(one) for one in track or []] + ([JsonLines(sys.stdout, str(folder))] if json else []),
        lambda message: print(f"asyncfl: {message}", file=sys.stderr),
    )
    if not json:
        print_text(f"data: {data_line(description.data)}", *(f"note: {one}" for one in idle_settings(description)))
    from asyncfl.api import execute
    from asyncfl.simulation.limits import Limits

    began = time.monotonic()
    try:
        with ProgressBar(description, quiet or json) as bar:
            limits = Limits(hours=max_hours, gib=max_gib)
            execute(description, folder, [bar, trackers], force=force, limits=limits, workers=asked, until=until)
        if not own.is_whole() or any(own.checkpoints()):
            pauses = f"{folder} pauses at version {until} or later; repeat the command with a later --until, or without"
            print_text(pauses, to=stderr if json else console)
            return
        result = Run.load(folder)
    except KeyboardInterrupt as error:
        finished = sum(place.name.startswith("seed-") for place in own.kept())
        kept = [f"{finished} of {len(description.seeds)} seeds are kept"] if finished else []
        kept += ["a checkpoint is kept"] if any(own.checkpoints()) else []
        told = f"{', '.join(kept)}; repeat the command to continue" if kept else "nothing is kept"
        print_text(f"interrupted; {told}", to=stderr)
        raise typer.Exit(status_of(error)) from None
    if not json:
        print_summary(result)
        compiled = {str(one.get("kernels", TORCH)) for one in result.timing.values()} - {TORCH}
        if compiled:
            print_text(f"convolutions behind pooling: compiled kernels ({', '.join(sorted(compiled))})")
        note = "exists already" if existed else f"written in {time.monotonic() - began:.1f} s"
        console.print(f"{folder} {note}")


def data_line(data: DataSpec) -> str:
    """Return the line after `data:`: the data sets, what replaces them, and whether they are real or embedded."""
    origin = data.resolve_source()
    if data.own is not None:
        return data.own.provenance
    pairs = zip(data.names, (source.name for source in data.sources()), strict=True)
    return f"{', '.join(name if name == own else f'{own} in place of {name}' for name, own in pairs)} ({origin})"


def read_scenario(path: Path, assignments: list[str], world: Path | None = None) -> Scenario:
    """Read a scenario, apply `field=value` assignments, and return the changed scenario, which alone must be valid.

    Raises ScenarioError.
    """
    look_for_modules_in(path.parent)
    changes = read_assignments(assignments)
    if world is not None:
        from asyncfl.world.world_file import read_world

        changes = {"world": read_world(world).model_dump(mode="json"), **changes}
    return Scenario.load(path, changes)


def print_summary(result: Any) -> None:
    """Print the final values of a run, one line per seed, then its bans, privacy statements and notes."""
    # Without pandas, which takes longer to import than a small run.
    rounds = result.tables["rounds"]
    is_regression = "test_r2" in rounds.column_names
    name, label = ("test_r2", "test R²") if is_regression else ("test_accuracy", "test accuracy")
    last = {seed: row for row, seed in enumerate(rounds["seed"].to_pylist())}
    rows = [
        [
            *(int(seed), one["versions"], quantity(one["virtual_s"], "s")),
            *(rounds[column][last[int(seed)]].as_py() for column in ("train_loss", name)),
            one["stopped"],
        ]
        for seed, one in result.summary["seeds"].items()
    ]
    print_table(["seed", "version", "virtual time", "train loss", label, "ended because"], rows)
    print_text(
        *_bans(result),
        *result.summary.get("privacy", []),
        *(f"note: {note}" for note in result.summary.get("notes", [])),
    )


def _bans(result: Any) -> Iterator[str]:
    """Yield a sentence on the banned clients of each seed, if the server bans."""
    if result.scenario.defence.strikes is None:
        return
    clients = result.tables["clients"]
    of, attacks, is_banned = (clients[name].to_numpy() for name in ("seed", "attacker", "banned"))
    for seed in result.summary["seeds"]:
        bad, banned = attacks[of == int(seed)], is_banned[of == int(seed)]
        found = f"{(banned & ~bad).sum()} of {(~bad).sum()} honest clients"
        if bad.any():
            found += f" and {(banned & bad).sum()} of {bad.sum()} attackers"
        yield f"seed {seed}: {found} banned"
