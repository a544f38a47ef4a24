"""`asyncfl sweep`: a scenario at several values of its fields, and a table of what the runs came to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asyncfl.cli.output import console, print_json, print_table, print_text
from asyncfl.errors import OutputError, RunError

if TYPE_CHECKING:
    from asyncfl.experiment.cells import Cell
    from asyncfl.experiment.sweep import Swept


def sweep(
    scenario: Annotated[Path, typer.Argument(help="YAML file of a scenario")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="field=value,value,...: one run for each; of several, all together"),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="seeds of each run; default: those of the file", min=1)] = None,
    out: Annotated[Path, typer.Option(help="folder of the runs, each in a folder of its own")] = Path("results/runs"),
    jobs: Annotated[int | None, typer.Option(help="runs at a time; default: as many as cores", min=1)] = None,
    threads: Annotated[int, typer.Option(help="threads of the training of a run", min=1)] = 1,
    write: Annotated[
        Path | None, typer.Option(help="write the experiment file that this stands for, and run nothing")
    ] = None,
    max_hours: Annotated[float, typer.Option(help="refuse a run that would take longer on one core", min=0)] = 2.0,
    max_gib: Annotated[float, typer.Option(help="refuse a run that would take more memory", min=0)] = 16.0,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="only the table")] = False,
) -> None:
    """Run a scenario for each combination of values, and tabulate the results.

    Runs that exist already are not computed again.

    Example: asyncfl sweep scenario.yaml --set privacy.epsilon=1,5,10 --seeds 3
    """
    # Before torch is imported: the thread pools of BLAS and OpenMP are sized once.
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, str(threads))
    from asyncfl.experiment.sweep import cores, run_all, sweep_cells, sweep_of, to_yaml
    from asyncfl.limits import Limits

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
                _tell(cells[place], swept, len(found), len(cells))
    except KeyboardInterrupt:
        there = sum(not one.failed for one in found.values())
        print_text(f"interrupted; {there} of {len(cells)} runs are there: the same command goes on")
        raise
    _report(cells, found, json)
    if failed := [place for place in sorted(found) if found[place].failed]:
        first = f"{_named(cells[failed[0]])}: {found[failed[0]].failed}"
        raise RunError(f"{len(failed)} of {len(cells)} runs failed, the first at {first}")


def _write(text: str, path: Path) -> None:
    from asyncfl.files.atomic import write_text

    if path.exists():
        raise OutputError(f"cannot write {path}: it is there already; name another file")
    write_text(text, path)


def _named(cell: Cell) -> str:
    return ", ".join(f"{name}={value}" for name, value in cell.values.items())


def _tell(cell: Cell, swept: Swept, number: int, of: int) -> None:
    what = "failed" if swept.failed else "was there already" if swept.was_there else f"written in {swept.seconds:.1f} s"
    console.print(f"{number} of {of}: {_named(cell)}: {swept.folder} {what}")


def _report(cells: list[Cell], found: dict[int, Swept], json: bool) -> None:
    from asyncfl.analysis.final_values import finals, heading, mean
    from asyncfl.analysis.statistics import convention
    from asyncfl.run_files import read_summary, read_table
    from asyncfl.storage import COMPLETE

    # Only what is shown: the events of a run may be many.
    runs = {place: one.folder for place, one in found.items() if not one.failed}
    rounds = {place: read_table(folder, "rounds").to_pandas() for place, folder in runs.items()}
    values = {place: {name: mean(one) for name, one in finals(frame).items()} for place, frame in rounds.items()}
    columns = list(dict.fromkeys(name for of_run in values.values() for name in of_run))
    diverged = {place: len(read_summary(folder / COMPLETE)["diverged"]) for place, folder in runs.items()}
    if json:
        told = [
            _as_json(cells[place], found[place], values.get(place, {})) | {"diverged": diverged.get(place)}
            for place in sorted(found)
        ]
        print_json({"runs": told})
        return
    axes = list(cells[0].values)
    rows: list[list[Any]] = []
    for place in sorted(found):
        shown = [str(values.get(place, {}).get(name, "—")) for name in columns]
        rows.append([*map(str, cells[place].values.values()), *shown, diverged.get(place, 0), found[place].folder.name])
    print_table([*axes, *map(heading, columns), "diverged (seeds)", "run"], rows)
    counts = sorted({one.seeds for of_run in values.values() for one in of_run.values() if one.seeds})
    for seeds in counts:
        print_text(convention(seeds))


def _as_json(cell: Cell, swept: Swept, values: dict[str, Any]) -> dict[str, Any]:
    said = {
        name: {"mean": one.mean, "half_of_95_interval": one.half, "seeds": one.seeds} for name, one in values.items()
    }
    return {"values": cell.values, "folder": str(swept.folder), "failed": swept.failed or None, "final": said}
