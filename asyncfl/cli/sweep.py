"""`asyncfl sweep`: run a scenario for each combination of values, and tabulate the results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asyncfl.base.errors import OutputError, RunError, system_says
from asyncfl.base.files.own_folder import CHECKPOINT, PARTIAL
from asyncfl.base.interrupt_signals import status_of
from asyncfl.cli.options import Json, MaxGib, MaxHours, ScenarioFile, Threads, limit_threads, option
from asyncfl.cli.output import console, print_json, print_table, print_text
from asyncfl.cli.progress import SweepBars

if TYPE_CHECKING:
    import pandas as pd

    from asyncfl.experiments.cells import Cell
    from asyncfl.experiments.sweep import SweepResult
    from asyncfl.experiments.target import Target


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
    variant: Annotated[
        list[str] | None,
        option(
            "A named change of several fields, such as FedBuff={protocol.kind: fedbuff, protocol.buffer: 5}. Repeated: "
            "one run for each, with each combination of --set.",
            *("--variant",),
            metavar="NAME={FIELD: VALUE}",
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        option(
            "Show time, versions and bytes until a column gets there, such as test_accuracy=.8. May be repeated.",
            *("--target",),
            metavar="COLUMN=VALUE",
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

    Runs that exist already are not computed again. The table also says how many updates a version is made of and
    which share of the tasks was lost; the runs' notes follow it.

    Example: asyncfl sweep scenario.yaml --set protocol.buffer=2,5,10 --seeds 3
    """
    limit_threads(threads)
    from asyncfl.base.files.atomic import check_writable_below, write_text
    from asyncfl.experiments.sweep import cores, read_target, run_all, sweep_cells, sweep_of, to_yaml
    from asyncfl.simulation.limits import Limits

    targets = {text: read_target(text) for text in target or []}
    experiment = sweep_of(scenario, set_ or [], seeds, variant or [])
    cells = sweep_cells(experiment)
    if write is not None:
        if write.exists():
            raise OutputError(f"cannot write {write}: it exists already; choose another name")
        write_text(to_yaml(experiment), write)
        console.print(f"{write}: {len(cells)} runs over {', '.join(cells[0].values)}")
        return
    try:
        if not all((out / cell.digest).exists() for cell in cells):
            check_writable_below(out)
    except OSError as error:
        raise OutputError(f"cannot write --out {out}: {error.filename}: {system_says(error)}") from None
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
    _report(cells, dict(sorted(found.items())), targets, json, quiet)
    if failed := [place for place in sorted(found) if found[place].failed]:
        first = f"{_named(cells[failed[0]])}: {found[failed[0]].failed}"
        raise RunError(f"{len(failed)} of {len(cells)} runs failed, the first at {first}")


def _named(cell: Cell) -> str:
    """Return the swept values of a run, such as `privacy.epsilon=5`."""
    return ", ".join(f"{name}={value}" for name, value in cell.values.items())


def _report(
    cells: list[Cell], swept: dict[int, SweepResult], targets: dict[str, Target], json: bool, quiet: bool
) -> None:
    """Print a table of the results of the finished runs and, unless `quiet`, their notes; or all as JSON."""
    from asyncfl.experiments.intervals import convention, finals, heading, mean, notes_of, outcomes, run_notes
    from asyncfl.results.run_files import read_summary, read_table
    from asyncfl.results.storage import COMPLETE

    # The events are not read: they may be many.
    runs = {place: one.folder for place, one in swept.items() if not one.failed}
    rounds = {place: read_table(folder, "rounds").to_pandas() for place, folder in runs.items()}
    summaries = {place: read_summary(folder / COMPLETE) for place, folder in runs.items()}
    values = {
        place: {name: mean(one) for name, one in (finals(frame) | outcomes(frame, summaries[place])).items()}
        for place, frame in rounds.items()
    }
    costs = {place: _costs(frame, targets) for place, frame in rounds.items()}
    diverged = {place: len(summary["diverged"]) for place, summary in summaries.items()}
    notes = {place: run_notes(summary) for place, summary in summaries.items()}
    if json:
        described = [
            {
                "values": cells[place].values,
                "folder": str(one.folder),
                "failed": one.failed or None,
                "final": {
                    name: {"mean": of.mean, "half_of_95_interval": of.half, "seeds": of.seeds}
                    for name, of in values.get(place, {}).items()
                },
                "targets": costs.get(place),
                "diverged": diverged.get(place),
                "notes": notes.get(place, []),
            }
            for place, one in swept.items()
        ]
        print_json({"runs": described})
        return
    columns = list(dict.fromkeys(name for of_run in values.values() for name in of_run))
    rows: list[list[Any]] = [
        [
            *map(str, cells[place].values.values()),
            *(str(values.get(place, {}).get(name, "—")) for name in columns),
            *(_cost(costs.get(place, {}).get(text), cost) for text in targets for cost in COSTS),
            *(diverged.get(place, "—"), one.folder.name),
        ]
        for place, one in swept.items()
    ]
    reached = [f"{cost} to {text}" for text in targets for cost in COSTS]
    print_table([*cells[0].values, *map(heading, columns), *reached, "diverged (seeds)", "run"], rows)
    counts = {one.seeds for of_run in values.values() for one in of_run.values() if one.seeds}
    print_text(*map(convention, sorted(counts)))
    if not quiet:
        print_text(*notes_of({_named(cells[place]): of_run for place, of_run in notes.items()}))


COSTS = {"time_s": "time_s", "versions": "round", "bytes": "bytes"}
"""Heading of a cost of reaching a target -> its name in `Target`."""


def _costs(rounds: pd.DataFrame, targets: dict[str, Target]) -> dict[str, dict[str, Any]]:
    """Return for each target the mean costs over the seeds of a run, by `COSTS`, the means `from` which on they may lie
    as versions between were not evaluated, and how many seeds reached it; the means are infinite where one did not, or
    diverged."""
    frame = rounds.rename(columns={"version": "round"})
    ends = frame.groupby("seed")["diverged"].any().reset_index()
    found: dict[str, dict[str, Any]] = {}
    for text, target in targets.items():
        of = {name: target.model_copy(update={"cost": cost}).intervals(frame, ends) for name, cost in COSTS.items()}
        lower, upper = ({name: float(one[:, end].mean()) for name, one in of.items()} for end in (0, 1))
        reached = int((of["versions"][:, 1] < float("inf")).sum())
        found[text] = upper | {"from": lower, "reached": reached, "seeds": len(ends)}
    return found


def _cost(found: dict[str, Any] | None, cost: str) -> str:
    """Return a cost of a target as the cell of a table."""
    if found is None:
        return "—"
    if found["reached"] < found["seeds"]:
        return f"by {found['reached']} of {found['seeds']} seeds"
    upper, lower = f"{found[cost]:.4g}", f"{found['from'][cost]:.4g}"
    return upper if upper == lower else f"{lower} to {upper}"
