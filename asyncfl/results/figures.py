"""The workflow's step from tables to figures, and what stands under every figure: where its numbers come from."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from asyncfl.analysis.pictures import PICTURES
from asyncfl.analysis.statistics import convention
from asyncfl.analysis.tables import read_csv
from asyncfl.experiment import Experiment, Scale
from asyncfl.files.whole import write_text


def make_figures(experiment: Experiment, scale: Scale, folder: Path) -> list[Path]:
    """Draws every figure of the experiment from the tables in `folder`, and writes their caption."""
    tables = {name: read_csv(folder / f"{name}.csv") for name in ("curves", "final", "cells", "bounds")}
    if experiment.pictures is not None:
        tables["pictures"] = read_csv(folder / PICTURES)
    text = caption(experiment, scale, tables["cells"])
    write_text(text + "\n", folder / "caption.txt")
    grid = experiment.grid(scale)
    return [
        path
        for figure in experiment.all_figures
        for path in figure.draw(
            figure.axes(grid, experiment.bounds), tables, text, experiment.title, folder / figure.name
        )
    ]


def caption(experiment: Experiment, scale: Scale, cells: pd.DataFrame) -> str:
    """Scale, seeds, data source, and what quick scale lowered, in one or two sentences."""
    if len(cells) == 0:
        return f"{experiment.source}. Formula, not measured; a ring marks the best whole number."
    sources = "; ".join(dict.fromkeys(str(text) for text in cells["provenance"] if str(text) not in ("", "nan")))
    # a caption names the data once, whatever the number of cells that used them
    data = f" Data: {sources}." if sources else ""
    *fewer, seeds = experiment.seed_counts(scale)
    others = f", in some cells {' or '.join(map(str, fewer))}" if fewer else ""
    text = f"{experiment.source}, scale {scale}: {convention(seeds)}{others}.{data}"
    lowered = experiment.lowered(scale)
    return text if not lowered else f"{text} Quick scale lowers: {'; '.join(lowered)}."
