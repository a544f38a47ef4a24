"""`asyncfl stress`: test a detector in small federations of many kinds."""

from __future__ import annotations

from typing import Annotated, Any

from asyncfl.cli.options import Json, Quiet, argument, option
from asyncfl.cli.output import print_json, print_table, print_text
from asyncfl.cli.progress import bars

COLUMNS = (
    *("", "honest banned", "of", "attackers banned", "of"),
    *("honest flagged, %", "attacks flagged, %", "unjudged, %"),
    *("beyond the mean, points", "at worst, points", "short of no attack, points"),
)


def stress(
    detector: Annotated[str, argument("DETECTOR", "Kind of a detector, or my_module:MyDetector.")],
    repeats: Annotated[int, option("Repetitions of the whole grid, each with other seeds.", min=1)] = 1,
    seeds: Annotated[int, option("Federations of each cell of the grid, which differ in their seed only.", min=1)] = 1,
    root: Annotated[bool, option("Give the server 100 samples of its own.", "--root")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Test a detector in 200 small federations: honest clients banned, attackers found.

    Each federation has forty clients with 8 x 8 digits. They differ in data (eight ways), attack (22 and none),
    buffer size, noise and share of attackers (below half). A client is banned when two of three judged updates are
    flagged.

    Example: asyncfl stress evidence
    """
    from asyncfl.defences.defence_spec import detector_named
    from asyncfl.testing.stress import stress as stressed
    from asyncfl.testing.stress import stress_grid

    chosen = detector_named(detector)
    trials = stress_grid(repeats, root=root or chosen.needs_root, seeds=seeds)
    with bars(quiet) as bar:
        task = bar.add_task("federations", total=len(trials), note="")
        report = stressed(chosen, trials=trials, progress=lambda done, of: bar.update(task, completed=done))
    if json:
        found = {name: getattr(report, name) for name in ("honest", "honest_banned", "most_harmed")}
        found |= {"federations": len(report.cases), "federations_harmed": report.harmed}
        tables = {"rows": report.rows.reset_index(), "cells": report.cells}
        found |= {"broken": list(report.violations)} | {name: one.to_dict("records") for name, one in tables.items()}
        print_json(found)
        return
    print_table(COLUMNS, [_cells(row) for row in report.rows.itertuples()])
    print_text(*report.summary, *(f"Violated property: {violation}." for violation in report.violations))


def _cells(row: Any) -> list[Any]:
    shares = [round(100 * value, 2) for value in (row.honest_flagged, row.attacks_flagged, row.unjudged)]
    points = [round(100 * value, 1) for value in (row.gained, row.worst, row.lost)]
    return [row.Index, row.honest_banned, row.honest, row.attackers_banned, row.attackers, *shares, *points]
