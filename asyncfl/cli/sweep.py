"""`asyncfl sweep`: run a scenario for each combination of values, and tabulate the results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asyncfl.base.errors import OutputError, RunError
from asyncfl.base.files.own_folder import CHECKPOINT, PARTIAL
from asyncfl.base.interrupts import status_of
from asyncfl.cli.options import Json, MaxGib, MaxHours, ScenarioFile, Threads, limit_threads, option
from asyncfl.cli.output import console, print_json, print_table, print_text
from asyncfl.cli.progress import SweepBars

if TYPE_CHECKING:
    from asyncfl.experiments.cells import Cell
    from asyncfl.experiments.sweep import SweepResult


def sweep(
    scenario: ScenarioFile,
    set_: Annotated[
        list[str] | None,
        option(
            "Values of a field; one run for each. May be repeated: one run for each combination.",
            *("--set",),
            metavar="FIELD=VALUE,VALUE,...",
        ),
    ] = None,
    seeds: Annotated[int | None, option("Number of seeds of each run. Default: the file's seeds.", min=1)] = None,
    out: Annotated[Path, option("Folder for the runs' folders.")] = Path("results/runs"),
    jobs: Annotated[int | None, option("Runs at the same time. Default: the number of cores.", min=1)] = None,
    threads: Threads = 1,
    write: Annotated[Path | None, option("Write the sweep as an experiment file, and run nothing.")] = None,
    max_hours: MaxHours = 2.0,
    max_gib: MaxGib = 16.0,
    json: Json = False,
    quiet: Annotated[bool, option("Print the table only.", "--quiet")] = False,
) -> None:
    """Run a scenario for each combination of values, and tabulate the results.

    Runs that exist already are not computed again.

    Example: asyncfl sweep scenario.yaml --set privacy.epsilon=1,5,10 --seeds 3
    """
    limit_threads(threads)
    from asyncfl.base.files.atomic import write_text
    from asyncfl.experiments.sweep import cores, run_all, sweep_cells, sweep_of, to_yaml
    from asyncfl.federation.limits import Limits

    experiment = sweep_of(scenario, set_ or [], seeds)
    cells = sweep_cells(experiment)
    if write is not None:
        if write.exists():
            raise OutputError(f"cannot write {write}: it exists already; choose another name")
        write_text(to_yaml(experiment), write)
        console.print(f"{write}: {len(cells)} runs over {', '.join(experiment.axes)}")
        return
    limits, found = Limits(hours=max_hours, gib=max_gib), dict[int, "SweepResult"]()
    scenarios = [cell.scenario for cell in cells]
    shown = {out / cell.digest: (_named(cell), cell.scenario) for cell in cells}
    try:
        with SweepBars(shown, quiet or json) as bar:
            for place, swept in run_all(scenarios, out, jobs or cores(), limits, scenario.parent, bar):
                found[place] = swept
                bar.end(swept.folder)
                if not quiet and not json:
                    ended = "exists already" if swept.was_there else f"written in {swept.seconds:.1f} s"
                    outcome = f"{swept.folder} {'failed' if swept.failed else ended}"
                    console.print(f"{len(found)} of {len(cells)}: {_named(cells[place])}: {outcome}")
    except KeyboardInterrupt as error:
        there = sum(not one.failed for one in found.values())
        begun = {cell.digest for cell in cells if any((out / cell.digest / PARTIAL).glob(f"*/*{CHECKPOINT}"))}
        kept = f", of {len(begun)} more a checkpoint is kept" if begun else ""
        print_text(f"interrupted; {there} of {len(cells)} runs are finished{kept}; repeat the command to continue")
        raise typer.Exit(status_of(error)) from None
    _report(cells, dict(sorted(found.items())), json)
    if failed := [place for place in sorted(found) if found[place].failed]:
        first = f"{_named(cells[failed[0]])}: {found[failed[0]].failed}"
        raise RunError(f"{len(failed)} of {len(cells)} runs failed, the first at {first}")


def _named(cell: Cell) -> str:
    """Return the swept values of a run, such as `privacy.epsilon=5`."""
    return ", ".join(f"{name}={value}" for name, value in cell.values.items())


def _report(cells: list[Cell], outcomes: dict[int, SweepResult], json: bool) -> None:
    """Print a table of the final values of the finished runs; or, as JSON, all runs with their final values."""
    from asyncfl.experiments.intervals import convention, finals, heading, mean
    from asyncfl.federation.run_files import read_summary, read_table
    from asyncfl.federation.storage import COMPLETE

    # The events are not read: they may be many.
    runs = {place: one.folder for place, one in outcomes.items() if not one.failed}
    rounds = {place: read_table(folder, "rounds").to_pandas() for place, folder in runs.items()}
    values = {place: {name: mean(one) for name, one in finals(frame).items()} for place, frame in rounds.items()}
    diverged = {place: len(read_summary(folder / COMPLETE)["diverged"]) for place, folder in runs.items()}
    if json:
        described = [
            {
                "values": cells[place].values,
                "folder": str(swept.folder),
                "failed": swept.failed or None,
                "final": {
                    name: {"mean": one.mean, "half_of_95_interval": one.half, "seeds": one.seeds}
                    for name, one in values.get(place, {}).items()
                },
                "diverged": diverged.get(place),
            }
            for place, swept in outcomes.items()
        ]
        print_json({"runs": described})
        return
    columns = list(dict.fromkeys(name for of_run in values.values() for name in of_run))
    rows: list[list[Any]] = [
        [
            *map(str, cells[place].values.values()),
            *(str(values.get(place, {}).get(name, "—")) for name in columns),
            *(diverged.get(place, 0), swept.folder.name),
        ]
        for place, swept in outcomes.items()
    ]
    print_table([*cells[0].values, *map(heading, columns), "diverged (seeds)", "run"], rows)
    counts = {one.seeds for of_run in values.values() for one in of_run.values() if one.seeds}
    print_text(*map(convention, sorted(counts)))
