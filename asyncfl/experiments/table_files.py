"""The workflow's step from runs to an experiment's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asyncfl.base.files.atomic import write_text
from asyncfl.experiments.csv_files import MEMBERSHIP, PICTURES, read_csv, write_csv
from asyncfl.experiments.intervals import over_seeds
from asyncfl.experiments.run_tables import collect
from asyncfl.experiments.spec import Experiment, Scale

FRAMES = ("rounds", "curves", "ends", "final", "cells", "bounds")
"""Tables of an experiment, one CSV file each; see `asyncfl.experiments.run_tables`."""
ATTACKS = {
    "loss of the last model": "model_loss",
    "loss of uploads": "upload_loss",
    "likelihood ratio of uploads": "upload_ratio",
}
"""Attack of `asyncfl.audit.membership` -> suffix of its columns."""


def table_files(experiment: Experiment) -> list[str]:
    """Return the names of the files that `make_tables` writes."""
    return [*(f"{name}.csv" for name in FRAMES), *(f"{table.name}.md" for table in experiment.tables)]


def make_tables(experiment: Experiment, scale: Scale, runs: list[tuple[dict[str, Any], Path]], folder: Path) -> None:
    """Write the experiment's CSV tables (see `FRAMES`) and its Markdown tables into `folder`.

    runs: axis values and run folder of each cell. Raises RunError where a run cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    grid = experiment.grid(scale)
    axes = list(grid)
    frames = collect(runs, experiment.targets)
    attacks = {PICTURES: experiment.pictures, MEMBERSHIP: experiment.membership}
    for file in (file for file, asked in attacks.items() if asked is not None):
        measured = measured_pictures if file == PICTURES else measured_membership
        found = measured(read_csv(folder / file), axes)
        frames["ends"] = frames["ends"].merge(found, on=[*axes, "seed"], how="left", validate="one_to_one")
    frames["curves"] = over_seeds(frames["rounds"], axes, by_round=True) if runs else pd.DataFrame()
    frames["final"] = over_seeds(frames["ends"], axes, by_round=False) if runs else pd.DataFrame()
    bounds = [spec.over(spec.grid()).assign(name=name) for name, spec in experiment.bounds.items()]
    bounds += [of for figure in experiment.all_figures if (of := figure.own_bound(grid)) is not None]
    frames["bounds"] = pd.concat(bounds, ignore_index=True) if bounds else pd.DataFrame()
    for name in FRAMES:
        write_csv(frames[name], folder / f"{name}.csv")
    for table in experiment.tables:
        write_text(table.markdown(grid, frames["final"]), folder / f"{table.name}.md")


def measured_membership(found: pd.DataFrame, axes: list[str]) -> pd.DataFrame:
    """Return a row per axis values and seed with the columns of `MembershipColumns`. `found`: `membership.csv`."""
    keys = [*axes, "seed"]
    measured = found[keys].drop_duplicates().reset_index(drop=True)
    for attack, ending in ATTACKS.items():
        columns = {"true_positive_rate": f"members_found_{ending}", "area": f"membership_area_{ending}"}
        rows = found[found["attack"] == attack][[*keys, *columns]].rename(columns=columns)
        measured = measured.merge(rows, on=keys, how="left")
    return measured


def measured_pictures(pictures: pd.DataFrame, axes: list[str]) -> pd.DataFrame:
    """Return a row per axis values and seed with the columns of `PictureColumns`. `pictures`: `pictures.csv`."""
    keys = [*axes, "seed"]
    made = pictures[keys].drop_duplicates().reset_index(drop=True)
    for method, rows in pictures.assign(error=10.0 ** (-pictures["psnr_db"] / 10)).groupby("method"):
        by = rows.groupby(keys, dropna=False)
        with np.errstate(divide="ignore"):
            psnr_db = -10 * np.log10(by["error"].mean())
        told = pd.DataFrame({f"ssim_{method}": by["ssim"].mean(), f"psnr_{method}": psnr_db})
        made = made.merge(told.reset_index(), on=keys, how="left")
    by = pictures.groupby(keys, dropna=False)
    told = by.agg(
        ssim_guess=("guess_ssim", "mean"),
        labels_read_share=("labels_right", "first"),
        labels_chance_share=("labels_chance", "first"),
    )
    return made.merge(told.reset_index(), on=keys, how="left")
