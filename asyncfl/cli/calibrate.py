"""`asyncfl calibrate`: fit a world to recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from asyncfl.cli.options import Force, Json, argument, option
from asyncfl.cli.output import console, print_json, print_table, print_text


def calibrate(
    runs: Annotated[list[Path], argument("RUN", "Folders of runs of one federation, live or simulated.")],
    out: Annotated[Path, option("File to write.")] = Path("world.yaml"),
    seed: Annotated[
        list[int] | None,
        option("Seed of the runs. May be repeated if all seeds had the same clients. Default: the first."),
    ] = None,
    population: Annotated[
        bool,
        option("Draw clients from the distribution of the observed clients, instead of copying each.", "--population"),
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit a world to the events of runs: speeds, links, availability.

    A simulation in the fitted world predicts the federation.

    Example: asyncfl calibrate results/live/today --out world.yaml; asyncfl timeline scenario.yaml --world world.yaml
    """
    from asyncfl.base.files.atomic import check_free
    from asyncfl.calibration import calibrate as fit
    from asyncfl.calibration import observe_run
    from asyncfl.calibration.report import fit_table
    from asyncfl.federation.storage import Run
    from asyncfl.world.world_file import write_world

    check_free([out], force)
    seeds: list[int | None] = [*seed] if seed else [None]
    loaded = [(folder, Run.load(folder, own_code=False)) for folder in runs]
    fitted = fit([observe_run(run, str(folder), one) for folder, run in loaded for one in seeds])
    world = fitted.world(population)
    names = ", ".join(str(folder) for folder in runs)
    write_world(world, out, names)
    columns, rows = fit_table(fitted)
    if json:
        described = [dict(zip(columns, row, strict=True)) for row in rows]
        print_json({"world": world.model_dump(mode="json"), "fitted": described})
        return
    print_table(columns, rows)
    print_text("gap: Kolmogorov-Smirnov distance between the observed values and the fitted distribution")
    print_text(*(f"note: {note}" for note in fitted.notes()))
    console.print(f"{out} written")
