"""The workflow's step from tables to figures, and what stands under each figure: what it shows, of which data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd

from asyncfl.analysis.figures import Figure
from asyncfl.analysis.grid import select
from asyncfl.analysis.pictures import PICTURES
from asyncfl.analysis.tables import read_csv, write_csv
from asyncfl.errors import Fault, ScenarioError
from asyncfl.experiment import Experiment, Scale

Style = Literal["page", "paper"]
"""`page`: title above, caption below; `paper`: the axes alone, for a document that has words of its own."""
CAPTIONS = "figures.csv"
"""Table of an experiment's figures, see `captions`."""


def make_figures(experiment: Experiment, scale: Scale, folder: Path, style: Style = "page") -> list[Path]:
    """Draws every figure of the experiment from the tables in `folder`, and writes what stands under each."""
    tables = {name: read_csv(folder / f"{name}.csv") for name in ("curves", "final", "cells", "bounds")}
    if experiment.pictures is not None:
        tables["pictures"] = read_csv(folder / PICTURES)
    told = captions(experiment, scale, tables["cells"], style)
    write_csv(told, folder / CAPTIONS)
    drawn: list[Path] = []
    for figure, title, text in zip(experiment.all_figures, told["title"], told["caption"], strict=True):
        axes, stem = figure.axes(experiment.grid(scale), experiment.bounds), folder / figure.name
        if style == "paper":
            drawn += figure.model_copy(update={"title": ""}).draw(axes, tables, "", "", stem)
        else:
            drawn += figure.draw(axes, tables, text, title, stem)
    return drawn


def captions(experiment: Experiment, scale: Scale, cells: pd.DataFrame, style: Style = "page") -> pd.DataFrame:
    """A row per figure: name, title, caption, style, and whether it is run at this scale."""
    grid = experiment.grid(scale)
    rows = [
        {
            "name": figure.name,
            "title": figure.title or experiment.title,
            "caption": caption(experiment, scale, cells, figure),
            "style": style,
            "is_run": figure.is_run(figure.axes(grid, experiment.bounds)),
        }
        for figure in experiment.all_figures
    ]
    return pd.DataFrame(rows, columns=["name", "title", "caption", "style", "is_run"])


def caption(experiment: Experiment, scale: Scale, cells: pd.DataFrame, figure: Figure) -> str:
    """Describe what a figure shows: scale, seeds, data, what quick scale lowered, and the settings that are ours."""
    return f"{_measured(experiment, scale, cells, figure)} {experiment.choices}".rstrip()


def _measured(experiment: Experiment, scale: Scale, cells: pd.DataFrame, figure: Figure) -> str:
    shows = f"{figure.described(figure.axes(experiment.grid(scale), experiment.bounds))}. {experiment.source}"
    if len(cells) == 0 or figure.bound_named is not None:
        return f"{shows}: a formula, not measured; a ring marks the best whole number."
    where = _of_cells(figure.where, cells)
    cells = cells[select(cells, where)]
    sources = data_in_words([str(text) for text in cells["provenance"] if str(text) not in ("", "nan")])
    data = f" Data: {sources}." if sources else ""
    *fewer, seeds = experiment.seed_counts(scale)
    text = f"{shows}, scale {scale}: {figure.of_seeds(fewer, seeds)}.{data}"
    lowered = experiment.lowered(scale, where)
    return text if not lowered else f"{text} Quick scale lowers: {'; '.join(lowered)}."


def data_in_words(provenances: Sequence[str]) -> str:
    """The data of some cells, each set named once: what all cells have first, then what some have. Each provenance is a
    list of parts, as `asyncfl.sources` tells it."""
    cells = [text.split("; ") for text in dict.fromkeys(provenances)]
    parts = list(dict.fromkeys(part for cell in cells for part in cell))
    shared = [part for part in parts if all(part in cell for cell in cells)]
    some = [part for part in parts if part not in shared]
    if not shared or not some:
        return "; ".join(parts)
    return f"{'; '.join(shared)}; in some cells also {'; '.join(some)}"


def _of_cells(where: Mapping[str, Any], cells: pd.DataFrame) -> dict[str, Any]:
    return {axis: value for axis, value in where.items() if axis in cells}


def style_of(setting: str) -> Style:
    """The style that a setting names; empty: `page`. Raises ScenarioError."""
    for known in get_args(Style):
        if setting in ("", known):
            found: Style = known
            return found
    raise ScenarioError([Fault("style", f"must be one of {', '.join(get_args(Style))}, got {setting!r}")])
