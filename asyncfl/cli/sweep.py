"""`asyncfl sweep`: run a scenario for each combination of values, and tabulate the results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asyncfl.base.errors import OutputError, RunError
from asyncfl.cli.options import Json, MaxGib, MaxHours, ScenarioFile, Threads, limit_threads
from asyncfl.cli.output import console, print_json, print_table, print_text

if TYPE_CHECKING:
    from asyncfl.experiments.cells import Cell
    from asyncfl.experiments.sweep import Swept


def sweep(
    scenario: ScenarioFile,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Values of a field; one run for each. May be repeated: one run for each combination.",
            metavar="FIELD=VALUE,VALUE,...",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Number of seeds of each run. Default: the file's seeds.", min=1)
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the runs' folders.")] = Path("results/runs"),
    jobs: Annotated[
        int | None, typer.Option(help="Runs at the same time. Default: the number of cores.", min=1)
    ] = None,
    threads: Threads = 1,
    write: Annotated[Path | None, typer.Option(help="Write the sweep as an experiment file, and run nothing.")] = None,
    max_hours: MaxHours = 2.0,
    max_gib: MaxGib = 16.0,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the table only.")] = False,
) -> None:
    """Run a scenario for each combination of values, and tabulate the results.

    Runs that exist already are not computed again.

    Example: asyncfl sweep scenario.yaml --set privacy.epsilon=1,5,10 --seeds 3
    """
    limit_threads(threads)
    from asyncfl.experiments.sweep import cores, run_all, sweep_cells, sweep_of, to_yaml
    from asyncfl.federation.limits import Limits

    experiment = sweep_of(scenario, set_ or [], seeds)
    cells = sweep_cells(experiment)
    if write is not None:
        _write(to_yaml(experiment), write)
        console.print(f"{write}: {len(cells)} runs over {', '.join(experiment.axes)}")
        return
    limits, found = Limits(hours=max_hours, gib=max_gib), dict[int, "Swept"]()
    try:
        runs = run_all([cell.scenario for cell in cells], out, jobs or cores(), limits, scenario.parent)
        for place, swept in runs:
            found[place] = swept
            if not quiet and not json:
                _print_progress(cells[place], swept, len(found), len(cells))
    except KeyboardInterrupt:
        there = sum(not one.failed for one in found.values())
        print_text(f"interrupted; {there} of {len(cells)} runs are finished; repeat the command to continue")
        raise
    _report(cells, found, json)
    if failed := [place for place in sorted(found) if found[place].failed]:
        first = f"{_named(cells[failed[0]])}: {found[failed[0]].failed}"
        raise RunError(f"{len(failed)} of {len(cells)} runs failed, the first at {first}")


def _write(text: str, path: Path) -> None:
    from asyncfl.base.files.atomic import write_text

    if path.exists():
        raise OutputError(f"cannot write {path}: it exists already; choose another name")
    write_text(text, path)


def _named(cell: Cell) -> str:
    """Return the swept values of a run, such as `privacy.epsilon=5`."""
    return ", ".join(f"{name}={value}" for name, value in cell.values.items())


def _print_progress(cell: Cell, swept: Swept, number: int, of: int) -> None:
    outcome = "failed" if swept.failed else "exists already" if swept.was_there else f"written in {swept.seconds:.1f} s"
    console.print(f"{number} of {of}: {_named(cell)}: {swept.folder} {outcome}")


def _report(cells: list[Cell], outcomes: dict[int, Swept], json: bool) -> None:
    """Print a table of the final values of the finished runs; or, as JSON, all runs with their final values."""
    from asyncfl.experiments.intervals import convention, finals, heading, mean
    from asyncfl.federation.run_files import read_summary, read_table
    from asyncfl.federation.storage import COMPLETE

    # The events are not read: they may be many.
    runs = {place: one.folder for place, one in outcomes.items() if not one.failed}
    rounds = {place: read_table(folder, "rounds").to_pandas() for place, folder in runs.items()}
    values = {place: {name: mean(one) for name, one in finals(frame).items()} for place, frame in rounds.items()}
    columns = list(dict.fromkeys(name for of_run in values.values() for name in of_run))
    diverged = {place: len(read_summary(folder / COMPLETE)["diverged"]) for place, folder in runs.items()}
    if json:
        described = [
            _as_json(cells[place], outcomes[place], values.get(place, {})) | {"diverged": diverged.get(place)}
            for place in sorted(outcomes)
        ]
        print_json({"runs": described})
        return
    axes = list(cells[0].values)
    rows: list[list[Any]] = []
    for place in sorted(outcomes):
        shown = [str(values.get(place, {}).get(name, "—")) for name in columns]
        swept = map(str, cells[place].values.values())
        rows.append([*swept, *shown, diverged.get(place, 0), outcomes[place].folder.name])
    print_table([*axes, *map(heading, columns), "diverged (seeds)", "run"], rows)
    counts = sorted({one.seeds for of_run in values.values() for one in of_run.values() if one.seeds})
    for seeds in counts:
        print_text(convention(seeds))


def _as_json(cell: Cell, swept: Swept, values: dict[str, Any]) -> dict[str, Any]:
    final = {
        name: {"mean": one.mean, "half_of_95_interval": one.half, "seeds": one.seeds} for name, one in values.items()
    }
    return {"values": cell.values, "folder": str(swept.folder), "failed": swept.failed or None, "final": final}
