"""The workflow's step from tables to figures."""

from __future__ import annotations

from pathlib import Path

from asyncfl.analysis.tables import read_csv, write_text
from asyncfl.experiment import Experiment, Scale
from asyncfl.results.captions import caption


def make_figures(experiment: Experiment, scale: Scale, folder: Path) -> list[Path]:
    """Draws every figure of the experiment from the tables in `folder`, and writes their caption."""
    tables = {name: read_csv(folder / f"{name}.csv") for name in ("curves", "final", "cells", "bounds")}
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
