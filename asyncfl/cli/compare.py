"""`asyncfl compare`: compare the settings and the final results of runs."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from asyncfl.base.description import differing_fields
from asyncfl.base.errors import AsyncflError, Fault, ScenarioError, shortened
from asyncfl.cli.options import Json, argument
from asyncfl.cli.output import print_json, print_table, print_text

if TYPE_CHECKING:
    from asyncfl.results.storage import Run


def compare(
    runs: Annotated[list[Path], argument("RUN", "Folders of runs. All are compared with the first.")],
    json: Json = False,
) -> None:
    """Compare the settings and the final results of runs, seed by seed.

    Prints the fields in which the scenarios differ, and paired differences between the last versions with 95 %
    intervals.

    Example: asyncfl compare results/runs/HASH results/runs/OTHER
    """
    from asyncfl.experiments.intervals import (
        convention,
        difference,
        finals,
        heading,
        mean,
        notes_of,
        outcomes,
        run_notes,
    )
    from asyncfl.results.storage import Run

    if len(runs) < 2:
        raise ScenarioError([Fault("RUN", f"must be at least two folders of runs, got {len(runs)}")])
    loaded = [Run.load(folder, own_code=False) for folder in runs]
    fields = differing_fields(*(run.description for run in loaded))
    first, *others = values = [finals(run.rounds) | outcomes(run.rounds, run.summary) for run in loaded]
    columns = list(dict.fromkeys(name for of_run in values for name in of_run))
    apart = {
        name: [difference(first[name], other[name]) if name in first and name in other else None for other in others]
        for name in columns
    }
    diverged = [len(run.summary["diverged"]) for run in loaded]
    if json:
        found = {
            name: {
                "mean": [mean(of_run[name]).mean if name in of_run else None for of_run in values],
                "difference": [
                    None if one is None else {"mean": one.mean, "half_of_95_interval": one.half, "seeds": one.seeds}
                    for one in apart[name]
                ],
            }
            for name in columns
        }
        print_json({"runs": list(map(str, runs)), "fields": fields, "final": found, "diverged": diverged})
        return
    names = [folder.resolve().name for folder in runs]
    if len(set(names)) < len(names):
        names = list(map(str, runs))
    if fields:
        print_table(["field", *names], [[field, *map(_cell, of_runs)] for field, of_runs in fields.items()])
    else:
        print_text("The scenarios are the same in all fields.")
        if _names_differ(loaded):
            print_text("Their data, profiles, initial models or own components differ.")
    print_text("")
    table: list[list[Any]] = []
    for name in columns:
        means = [str(mean(of_run[name])) if name in of_run else "—" for of_run in values]
        table.append([heading(name), *means, *("—" if one is None else str(one) for one in apart[name])])
    print_table(["last version", *names, *(f"{name} - {names[0]}" for name in names[1:])], table)
    pairs = {one.seeds for of_runs in apart.values() for one in of_runs if one is not None and one.seeds}
    print_text(*(f"differences, paired by seed: {convention(seeds)}" for seeds in sorted(pairs)))
    for name, count in zip(names, diverged, strict=True):
        if count:
            print_text(f"note: {count} seeds of {name} diverged and are left out")
    print_text(*notes_of({name: run_notes(run.summary) for name, run in zip(names, loaded, strict=True)}))


def _names_differ(runs: Sequence[Run]) -> bool:
    """Whether runs of equal scenarios differ in their names. Versions up to 0.1 named the same run otherwise."""
    names = {str(run.summary["hash"]) for run in runs}
    with suppress(AsyncflError, OSError):  # data that the name depends on may be gone
        return len(names) > 1 and not all(map(runs[0].scenario.is_named, names))
    return True


def _cell(value: Any) -> str:
    return "—" if value is None else shortened(json_module.dumps(value, default=str), 40)
