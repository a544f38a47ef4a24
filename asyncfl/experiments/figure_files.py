"""The workflow's step from tables to figures, and what stands under each figure: what it shows, of which data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import pandas as pd

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.experiments.attack_tables import PICTURES
from asyncfl.experiments.figures import Figure
from asyncfl.experiments.grid import AxisValues, same, select
from asyncfl.experiments.run_tables import plain, read_csv, write_csv
from asyncfl.experiments.spec import Experiment, Scale

Style = Literal["page", "paper"]
"""`page`: title above, caption below; `paper`: the axes alone, for a document that has words of its own."""
CAPTIONS = "figures.csv"
"""Table of an experiment's figures, see `captions`."""


def make_figures(experiment: Experiment, scale: Scale, folder: Path, style: Style = "page") -> list[Path]:
    """Draws every figure of the experiment from the tables in `folder`, and writes what stands under each."""
    tables = {name: read_csv(folder / f"{name}.csv") for name in ("curves", "final", "ends", "cells", "bounds")}
    if experiment.pictures is not None:
        tables["pictures"] = read_csv(folder / PICTURES)
    told = captions(experiment, scale, tables["cells"], tables["ends"], style)
    write_csv(told, folder / CAPTIONS)
    drawn: list[Path] = []
    for figure, title, text in zip(experiment.all_figures, told["title"], told["caption"], strict=True):
        axes, stem = _axes(experiment, scale, tables["cells"], figure), folder / figure.name
        if style == "paper":
            drawn += figure.model_copy(update={"title": ""}).draw(axes, tables, "", "", stem)
        else:
            drawn += figure.draw(axes, tables, text, title, stem)
    return drawn


def captions(
    experiment: Experiment, scale: Scale, cells: pd.DataFrame, ends: pd.DataFrame, style: Style = "page"
) -> pd.DataFrame:
    """Return a row per figure: name, title, caption, style, and whether it is run at this scale."""
    rows = [
        {
            "name": figure.name,
            "title": figure.title or experiment.title,
            "caption": f"{_measured(experiment, scale, cells, ends, figure)} {experiment.choices}".rstrip(),
            "style": style,
            "is_run": figure.is_run(_axes(experiment, scale, cells, figure)),
        }
        for figure in experiment.all_figures
    ]
    return pd.DataFrame(rows, columns=["name", "title", "caption", "style", "is_run"])


def _measured(experiment: Experiment, scale: Scale, cells: pd.DataFrame, ends: pd.DataFrame, figure: Figure) -> str:
    """What a figure shows: scale, seeds, data, and what quick scale lowered."""
    shows = f"{figure.described(_axes(experiment, scale, cells, figure))}. {experiment.source}"
    if len(cells) == 0 or figure.bound_named is not None:
        return f"{shows}: a formula, not measured; a ring marks the best whole number."
    where = {axis: value for axis, value in figure.where.items() if axis in cells}
    cells, ends, axes = cells[select(cells, where)], ends[select(ends, where)], list(experiment.grid(scale))
    sources = data_in_words([str(text) for text in cells["provenance"] if str(text) not in ("", "nan")])
    counts = sorted(set(ends.groupby(axes, dropna=False)["seed"].nunique())) if axes else [len(ends)]
    *fewer, seeds = counts or experiment.seed_counts(scale)
    text = f"{shows}, scale {scale}: {figure.of_seeds(fewer, seeds)}." + (f" Data: {sources}." if sources else "")
    lowered = experiment.lowered(scale, where, seeds)
    return text if not lowered else f"{text} Quick scale lowers: {'; '.join(lowered)}."


def _axes(experiment: Experiment, scale: Scale, cells: pd.DataFrame, figure: Figure) -> AxisValues:
    """The axes that a figure is drawn over, with the values of which it shows a run."""
    axes = figure.axes(experiment.grid(scale), experiment.bounds)
    if len(cells) == 0 or figure.bound_named is not None:
        return axes
    shown = cells[select(cells, figure.where)]
    return {axis: tuple(v for v in values if same(shown[axis], plain(v)).any()) for axis, values in axes.items()}


def data_in_words(provenances: Sequence[str]) -> str:
    """The data of some cells, each set named once: what all cells have first, then what some have. Each provenance is a
    list of parts, as `asyncfl.base.sources` tells it."""
    cells = [text.split("; ") for text in dict.fromkeys(provenances)]
    parts = list(dict.fromkeys(part for cell in cells for part in cell))
    shared = [part for part in parts if all(part in cell for cell in cells)]
    some = [part for part in parts if part not in shared]
    if not shared or not some:
        return "; ".join(parts)
    return f"{'; '.join(shared)}; in some cells also {'; '.join(some)}"


def style_of(setting: str) -> Style:
    """The style that a setting names; empty: `page`. Raises ScenarioError."""
    for known in get_args(Style):
        if setting in ("", known):
            found: Style = known
            return found
    raise ScenarioError([Fault("style", f"must be one of {', '.join(get_args(Style))}, got {setting!r}")])
