"""`asyncfl stress`: test a detector in small federations of many kinds."""

from __future__ import annotations

from typing import Annotated, Any

from asyncfl.cli.options import Json, Quiet, argument, limit_threads, option, read_assignments
from asyncfl.cli.output import print_json, print_table, print_text
from asyncfl.cli.progress import bars, stderr

COLUMNS = (
    *("", "honest banned", "of", "attackers banned", "of"),
    *("honest flagged, %", "attacks flagged, %", "of those judged, %", "unjudged, %"),
    *("beyond the mean, points", "at worst, points", "short of no attack, points"),
    *("backdoor succeeds, %", "under the mean, %"),
)


def stress(
    detector: Annotated[str, argument("DETECTOR", "Kind of a detector, or my_module:MyDetector.")],
    set_: Annotated[
        list[str] | None,
        option(
            "Change a field: detector.deviations=5, strikes.threshold=3, fallback.kind=median. May be repeated.",
            *("--set",),
            metavar="FIELD=VALUE",
        ),
    ] = None,
    seeds: Annotated[int, option("Federations of each kind, which differ in their seed only.", min=1)] = 1,
    root: Annotated[bool, option("Give the server 100 samples of its own.", "--root")] = False,
    jobs: Annotated[int, option("Number of processes.", min=1)] = 1,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Test a detector in 232 small federations: honest clients banned, attackers found.

    Each federation has forty clients with 8 x 8 digits. They differ in data (eight ways), attack (26 and none),
    buffer size, noise and share of attackers (below half). A client is banned when two of three judged updates are
    flagged. --set changes the detector, the strikes, or the rule where the detector abstains. The cost is measured
    and printed before the test begins.

    Example: asyncfl stress evidence --set strikes.threshold=3
    """
    limit_threads()
    from asyncfl.defences.defence_spec import detector_with
    from asyncfl.extras.stress.stress_test import estimate_cost, stress_grid
    from asyncfl.extras.stress.stress_test import stress as stressed

    chosen, strikes, fallback = detector_with(detector, read_assignments(set_ or []))
    trials = stress_grid(seeds, root=root or chosen.needs_root)
    if not quiet:
        cost = max(1, round(estimate_cost(chosen, trials)))
        print_text(f"{len(trials)} federations: about {cost} CPU s", to=stderr)
    with bars(quiet) as bar:
        task = bar.add_task("federations", total=len(trials), note="")

        def progress(done: int, of: int) -> None:
            bar.update(task, completed=done)

        report = stressed(chosen, strikes, trials, progress, fallback=fallback, jobs=jobs)
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
    shares = [row.honest_flagged, row.attacks_flagged, row.attacks_flagged_judged, row.unjudged]
    percent = [round(100 * value, 2) for value in shares]
    success = [round(100 * value, 1) for value in (row.attack_success, row.mean_success)]
    points = [round(100 * value, 1) + 0.0 for value in (row.gained, row.worst, row.lost)]  # 0.0: no -0
    return [row.Index, row.honest_banned, row.honest, row.attackers_banned, row.attackers, *percent, *points, *success]
