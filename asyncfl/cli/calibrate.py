"""`asyncfl calibrate`: fit a world to recorded runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from asyncfl.base.errors import DataError, Fault, ScenarioError
from asyncfl.cli.options import Force, Json, argument, option
from asyncfl.cli.output import console, print_json, print_table, print_text


def calibrate(
    runs: Annotated[
        list[Path], argument("RUN", "Folders of runs of one federation, live or simulated, or CSV files of rounds.")
    ],
    out: Annotated[Path, option("File to write.")] = Path("world.yaml"),
    seed: Annotated[
        list[int] | None,
        option("Seed of the runs. May be repeated if all seeds had the same clients. Default: the first."),
    ] = None,
    population: Annotated[
        bool,
        option("Draw clients from the distribution of the observed clients, instead of copying each.", "--population"),
    ] = False,
    checks: Annotated[
        int, option("Simulations behind each prediction and its interval; 0: no predictions.", min=0)
    ] = 9,
    predict: Annotated[
        Path | None, option("Scenario of the same clients to predict too, e.g. another protocol.")
    ] = None,
    scenario: Annotated[
        list[Path] | None, option("Scenario of a CSV file of rounds: one for all files, or one for each.")
    ] = None,
    skip: Annotated[int, option("Rounds at the start of each CSV log that are left out: start-up.", min=1)] = 1,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit a world to the events of runs: speeds, links, availability, dropouts.

    A simulation in the fitted world predicts the federation. The first run is predicted with intervals, and what does
    not fit is named.

    Of a federation that is not of asyncfl, give a CSV file of its rounds (time_s, updates) and a --scenario: its
    speeds, their spread and the server's seconds are fitted.

    Example: asyncfl calibrate results/live/today --out world.yaml; asyncfl timeline scenario.yaml --world world.yaml
    """
    from asyncfl.base.files.atomic import check_free
    from asyncfl.cli.run import read_scenario
    from asyncfl.extras.calibration import calibrate as fit
    from asyncfl.extras.calibration import observe_run
    from asyncfl.extras.calibration.predictions import misfits, predictions_of, table_of
    from asyncfl.extras.calibration.report import fit_table
    from asyncfl.results.run_files import is_read_in_part
    from asyncfl.results.storage import Run
    from asyncfl.world.world_file import write_world

    check_free([out], force)
    if checks == 1:
        raise ScenarioError([Fault("--checks", "must be 0 or at least 2, got 1: one simulation has no spread")])
    if of_rounds := [path for path in runs if path.suffix.lower() == ".csv"]:
        if len(of_rounds) < len(runs) or not scenario:
            raise ScenarioError([Fault("RUN", "must be CSV files alone, with --scenario, where one of them is")])
        from asyncfl.cli.calibrate_rounds import calibrate_rounds

        calibrate_rounds(runs, scenario, skip, out, checks, predict, json)
        return
    if scenario:
        raise ScenarioError([Fault("--scenario", "must be left out with folders of runs, which hold theirs")])
    other = None if predict is None else read_scenario(predict, [])
    seeds: list[int | None] = [*seed] if seed else [None]
    loaded = [(folder, Run.load(folder, own_code=False)) for folder in runs]
    observed = [observe_run(run, str(folder), one) for folder, run in loaded for one in seeds]
    fitted = fit(observed)
    world = fitted.world(population)
    names = ", ".join(str(folder) for folder in runs)
    write_world(world, out, names)
    columns, rows = fit_table(fitted)
    notes = fitted.notes()
    if checks and is_read_in_part(loaded[0][1].scenario):
        checks = 0
        missing = "code of your own, which is not imported, or a removed kind"
        notes = [*notes, f"the fit is not checked: the run's scenario names {missing}"]
    checked, predicted = [], []
    if checks:
        try:
            checked = predictions_of(fitted, observed[0], checks)
            predicted = [] if other is None else predictions_of(fitted, observed[0], checks, other)
        except DataError as error:
            notes = [*notes, f"the fit is not checked, as that needs the data of the run: {error}"]
    if json:
        described = [dict(zip(columns, row, strict=True)) for row in rows]
        found = {"check": [*map(asdict, checked)], "predicted": [*map(asdict, predicted)]}
        print_json({"world": world.model_dump(mode="json"), "fitted": described, **found})
        return
    print_table(columns, rows)
    print_text("gap: Kolmogorov-Smirnov distance between the observed values and the fitted distribution")
    for table in (checked, predicted):
        if table:
            print_table(*table_of(table))
    print_text(*(f"note: {note}" for note in [*notes, *misfits(checked)]))
    console.print(f"{out} written")
