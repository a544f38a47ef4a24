"""The workflow's step from runs to an experiment's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from asyncfl.base.files.atomic import write_text
from asyncfl.experiments.attack_tables import MEMBERSHIP, PICTURES, measured_membership, measured_pictures
from asyncfl.experiments.intervals import over_seeds
from asyncfl.experiments.run_tables import collect, read_csv, write_csv
from asyncfl.experiments.spec import Experiment, Scale

FRAMES = ("rounds", "curves", "ends", "final", "cells", "bounds")
"""Tables of an experiment, one CSV file each; see `tables`."""


def table_files(experiment: Experiment) -> list[str]:
    """Names of the files that `make_tables` writes."""
    return [*(f"{name}.csv" for name in FRAMES), *(f"{table.name}.md" for table in experiment.tables)]


def make_tables(experiment: Experiment, scale: Scale, runs: list[tuple[dict[str, Any], Path]], folder: Path) -> None:
    """Writes the experiment's CSV tables (see `tables`) and its Markdown tables into `folder`.

    runs: axis values and run folder of each cell. Raises RunError where a run cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    grid = experiment.grid(scale)
    frames = collect(runs, experiment.targets)
    empty = len(runs) == 0
    if experiment.pictures is not None:
        told = measured_pictures(read_csv(folder / PICTURES), list(grid))
        frames["ends"] = frames["ends"].merge(told, on=[*grid, "seed"], how="left", validate="one_to_one")
    if experiment.membership is not None:
        told = measured_membership(read_csv(folder / MEMBERSHIP), list(grid))
        frames["ends"] = frames["ends"].merge(told, on=[*grid, "seed"], how="left", validate="one_to_one")
    frames["curves"] = pd.DataFrame() if empty else over_seeds(frames["rounds"], list(grid), by_round=True)
    frames["final"] = pd.DataFrame() if empty else over_seeds(frames["ends"], list(grid), by_round=False)
    frames["bounds"] = all_bounds(experiment, scale)
    for name in FRAMES:
        write_csv(frames[name], folder / f"{name}.csv")
    for table in experiment.tables:
        write_text(table.markdown(grid, frames["final"]), folder / f"{table.name}.md")


def all_bounds(experiment: Experiment, scale: Scale) -> pd.DataFrame:
    """The bounds of an experiment: its entries of `bounds`, and those drawn beside measured values; column `name`."""
    frames = [spec.over(spec.grid()).assign(name=name) for name, spec in experiment.bounds.items()]
    drawn = [figure.own_bound(experiment.grid(scale)) for figure in experiment.all_figures]
    frames += [frame for frame in drawn if frame is not None]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
