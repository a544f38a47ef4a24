"""The workflow's step from runs to an experiment's tables and figures, with a caption that names data and seeds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.files.atomic import write_text
from asyncfl.experiments.cell_settings import CellSettings
from asyncfl.experiments.csv_files import MEMBERSHIP, PICTURES, plain, read_csv, write_csv
from asyncfl.experiments.experiment_tables import collect
from asyncfl.experiments.figures import Figure, Final
from asyncfl.experiments.grid import AxisValues, Where, same, select
from asyncfl.experiments.intervals import over_seeds
from asyncfl.experiments.spec import Experiment, Scale

FRAMES = ("rounds", "curves", "ends", "final", "cells", "bounds")
"""Tables of an experiment, one CSV file each; see `asyncfl.experiments.experiment_tables`."""
ATTACKS = {
    "loss of the last model": "model_loss",
    "loss of uploads": "upload_loss",
    "likelihood ratio of uploads": "upload_ratio",
}
"""Attack of `asyncfl.extras.audit.membership` -> suffix of its columns."""
Style = Literal["page", "paper"]
"""`page`: title above, caption below; `paper`: the axes alone, for a document that has words of its own."""
CAPTIONS = "figures.csv"
"""Table of an experiment's figures: name, title, caption, style, and whether it is run at this scale."""

NOT_RUN = "Not run at this scale."
"""Caption of a figure without a run."""


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
    frames["bounds"] = values_of_bounds(experiment, scale)
    for name in FRAMES:
        write_csv(frames[name], folder / f"{name}.csv")
    for table in experiment.tables:
        write_text(table.markdown(grid, frames["final"]), folder / f"{table.name}.md")


def values_of_bounds(experiment: Experiment, scale: Scale) -> pd.DataFrame:
    """Return the values of an experiment's bounds and other formulas (`bounds.csv`), which rest on no run."""
    bounds = [spec.over(spec.grid()).assign(name=name) for name, spec in experiment.bounds.items()]
    for figure in experiment.all_figures:
        if isinstance(figure, Final) and figure.bound:
            arguments = figure.arguments(experiment.grid(scale))
            bounds.append(figure.bound.over(arguments).assign(name=f"figure {figure.name}"))
    return pd.concat(bounds, ignore_index=True) if bounds else pd.DataFrame()


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


def make_figures(
    experiment: Experiment, scale: Scale, folder: Path, style: Style = "page", names: Collection[str] | None = None
) -> list[Path]:
    """Draw figures of the experiment from the tables in `folder`, write their captions, and return the files.

    names: of the figures; None: all.
    """
    figures = [figure for figure in experiment.all_figures if names is None or figure.name in names]
    tables = {name: read_csv(folder / f"{name}.csv") for name in ("curves", "final", "ends", "cells", "bounds")}
    if any("pictures" in figure.tables_read for figure in figures):
        tables["pictures"] = read_csv(folder / PICTURES)
    settings = CellSettings(experiment)
    rows, drawn = [], []
    for figure in figures:
        axes = _axes(experiment, scale, tables["cells"], figure)
        title = figure.title or experiment.title
        caption = NOT_RUN
        if figure.is_run(axes):
            text = _measured(experiment, scale, tables, figure, axes)
            about = "" if figure.bound_named is not None else settings.in_words(figure.where, scale, axes)
            caption = f"{text} {about}".rstrip()
        rows.append((figure.name, title, caption, style, figure.is_run(axes)))
        if style == "paper":
            figure, title, caption = figure.model_copy(update={"title": ""}), "", ""
        drawn += figure.draw(axes, tables, caption, title, folder / figure.name)
    write_csv(pd.DataFrame(rows, columns=["name", "title", "caption", "style", "is_run"]), folder / CAPTIONS)
    return drawn


def _measured(
    experiment: Experiment, scale: Scale, tables: Mapping[str, pd.DataFrame], figure: Figure, drawn: AxisValues
) -> str:
    """Return what a figure shows: scale, seeds, data, and what quick scale lowered."""
    cells = tables["cells"]
    shows = f"{figure.described(drawn)}. {experiment.source}"
    if len(cells) == 0 or figure.bound_named is not None:
        return f"{shows}: a formula, not measured; a ring marks the best whole number."
    where = {axis: value for axis, value in figure.where.items() if axis in cells}
    cells = cells[select(cells, where)]
    sources = data_in_words([str(text) for text in cells["provenance"] if str(text) not in ("", "nan")])
    *fewer, seeds = seeds_drawn(figure, tables, where) or experiment.seed_counts(scale)
    values = f"{figure.of_seeds(fewer, seeds)}{figure.cuts(tables, where)}"
    text = f"{shows}, scale {scale}: {values}." + (f" Data: {sources}." if sources else "")
    lowered = experiment.lowered(scale, where, seeds, drawn)
    return f"{text} Quick scale lowers: {'; '.join(lowered)}." if lowered else text


def seeds_drawn(figure: Figure, tables: Mapping[str, pd.DataFrame], where: Where) -> list[int]:
    """Return the numbers of seeds behind the values that a figure draws, in order.

    Seeds that diverged, or in which a column is undefined, have no value.
    """
    counts: set[int] = set()
    for _, table, column in figure.columns_named:
        if len(frame := tables[{"rounds": "curves", "ends": "final"}[table]]):
            rows = frame[select(frame, where) & (frame["metric"] == column) & (frame["seeds"] > 0)]
            counts |= set(rows["seeds"].astype(int))
    return sorted(counts)


def _axes(experiment: Experiment, scale: Scale, cells: pd.DataFrame, figure: Figure) -> AxisValues:
    """Return the axes that a figure is drawn over, with the values that a run has."""
    axes = figure.axes(experiment.grid(scale), experiment.bounds)
    if len(cells) == 0 or figure.bound_named is not None:
        return axes
    shown = cells[select(cells, figure.where) | select(cells, {**figure.where, **figure.compared_with})]
    return {axis: tuple(v for v in values if same(shown[axis], plain(v)).any()) for axis, values in axes.items()}


def data_in_words(provenances: Sequence[str]) -> str:
    """Name each data set of some cells once: those of all cells first, then those of some.

    Each provenance is a list of parts, separated by semicolons.
    """
    cells = [text.split("; ") for text in dict.fromkeys(provenances)]
    parts = list(dict.fromkeys(part for cell in cells for part in cell))
    shared = [part for part in parts if all(part in cell for cell in cells)]
    some = [part for part in parts if part not in shared]
    if not shared or not some:
        return "; ".join(parts)
    return f"{'; '.join(shared)}; in some cells also {'; '.join(some)}"


def style_of(setting: str) -> Style:
    """Return the style of a setting; empty: `page`. Raises ScenarioError."""
    found: Style | None = next((known for known in get_args(Style) if setting in ("", known)), None)
    if found is not None:
        return found
    raise ScenarioError([Fault("style", f"must be one of {', '.join(get_args(Style))}, got {setting!r}")])
