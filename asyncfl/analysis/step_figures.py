"""The workflow's step from tables to figures."""

from __future__ import annotations

from pathlib import Path

from asyncfl.analysis.bounds import of
from asyncfl.analysis.captions import caption
from asyncfl.analysis.figures import draw
from asyncfl.analysis.tables import read_csv, write_text
from asyncfl.experiment import Experiment, Scale
from asyncfl.experiment.figure import BoundCurves, Final


def make_figures(experiment: Experiment, scale: Scale, folder: Path) -> list[Path]:
    """Draws every figure of the experiment from the tables in `folder`, and writes their caption."""
    tables = {name: read_csv(folder / f"{name}.csv") for name in ("curves", "final", "cells", "bounds")}
    text = caption(experiment, scale, tables["cells"])
    write_text(text + "\n", folder / "caption.txt")
    written = []
    for figure in experiment.all_figures:
        grid = experiment.grid(scale)
        if isinstance(figure, BoundCurves):
            grid = experiment.bounds[figure.bound].grid()
            tables["bound"] = of(tables["bounds"], figure.bound)
        elif isinstance(figure, Final) and figure.bound is not None:
            tables["bound"] = of(tables["bounds"], f"figure {figure.name}")
        written += draw(figure, grid, tables, text, experiment.title, folder / figure.name)
    return written
