"""The workflow's step from tables to figures, and the caption of each figure: what it shows, of which data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import pandas as pd

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.experiments.csv_files import PICTURES, plain, read_csv, write_csv
from asyncfl.experiments.figures import Figure
from asyncfl.experiments.grid import AxisValues, same, select
from asyncfl.experiments.spec import Experiment, Scale

Style = Literal["page", "paper"]
"""`page`: title above, caption below; `paper`: the axes alone, for a document that has words of its own."""
CAPTIONS = "figures.csv"
"""Table of an experiment's figures: name, title, caption, style, and whether it is run at this scale."""


def make_figures(experiment: Experiment, scale: Scale, folder: Path, style: Style = "page") -> list[Path]:
    """Draw every figure of the experiment from the tables in `folder`, write the captions, and return the files."""
    tables = {name: read_csv(folder / f"{name}.csv") for name in ("curves", "final", "ends", "cells", "bounds")}
    if experiment.pictures is not None:
        tables["pictures"] = read_csv(folder / PICTURES)
    rows, drawn = [], []
    for figure in experiment.all_figures:
        axes = _axes(experiment, scale, tables["cells"], figure)
        title = figure.title or experiment.title
        text = _measured(experiment, scale, tables["cells"], tables["ends"], figure, axes)
        caption = f"{text} {experiment.choices}".rstrip()
        rows.append((figure.name, title, caption, style, figure.is_run(axes)))
        if style == "paper":
            figure, title, caption = figure.model_copy(update={"title": ""}), "", ""
        drawn += figure.draw(axes, tables, caption, title, folder / figure.name)
    write_csv(pd.DataFrame(rows, columns=["name", "title", "caption", "style", "is_run"]), folder / CAPTIONS)
    return drawn


def _measured(
    experiment: Experiment, scale: Scale, cells: pd.DataFrame, ends: pd.DataFrame, figure: Figure, drawn: AxisValues
) -> str:
    """Return what a figure shows: scale, seeds, data, and what quick scale lowered."""
    shows = f"{figure.described(drawn)}. {experiment.source}"
    if len(cells) == 0 or figure.bound_named is not None:
        return f"{shows}: a formula, not measured; a ring marks the best whole number."
    where = {axis: value for axis, value in figure.where.items() if axis in cells}
    cells, ends, axes = cells[select(cells, where)], ends[select(ends, where)], list(experiment.grid(scale))
    sources = data_in_words([str(text) for text in cells["provenance"] if str(text) not in ("", "nan")])
    counts = sorted(set(ends.groupby(axes, dropna=False)["seed"].nunique())) if axes else [len(ends)]
    *fewer, seeds = counts or experiment.seed_counts(scale)
    text = f"{shows}, scale {scale}: {figure.of_seeds(fewer, seeds)}." + (f" Data: {sources}." if sources else "")
    lowered = experiment.lowered(scale, where, seeds)
    return f"{text} Quick scale lowers: {'; '.join(lowered)}." if lowered else text


def _axes(experiment: Experiment, scale: Scale, cells: pd.DataFrame, figure: Figure) -> AxisValues:
    """Return the axes that a figure is drawn over, with the values that a run has."""
    axes = figure.axes(experiment.grid(scale), experiment.bounds)
    if len(cells) == 0 or figure.bound_named is not None:
        return axes
    shown = cells[select(cells, figure.where)]
    return {axis: tuple(v for v in values if same(shown[axis], plain(v)).any()) for axis, values in axes.items()}


def data_in_words(provenances: Sequence[str]) -> str:
    """Name each data set of some cells once: those of all cells first, then those of some.

    Each provenance is a list of parts, see `asyncfl.base.sources`.
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
