"""The workflow's step from tables to verdicts."""

from __future__ import annotations

from pathlib import Path

from asyncfl.analysis.bounds import of
from asyncfl.analysis.grid import Grid, bound_grid
from asyncfl.analysis.tables import read_csv, write_csv
from asyncfl.experiment import Experiment, Scale
from asyncfl.results.verdicts import frame, judge


def make_verdicts(experiment: Experiment, scale: Scale, folder: Path) -> None:
    """Judges every claim of the experiment from the tables in `folder` and writes claims.csv."""
    tables = {name: read_csv(folder / f"{name}.csv") for name in ("rounds", "ends", "cells", "bounds")}
    runs = None
    if experiment.scenario is not None:
        cells = tables["cells"]
        sources = frozenset(
            str(source) if original else "stand-in"
            for source, original in zip(cells["source"], cells["original"], strict=True)
        )
        runs = Grid(experiment.grid(scale), tables["rounds"], tables["ends"], sources=sources)
    bounds = {name: bound_grid(spec.grid(), of(tables["bounds"], name)) for name, spec in experiment.bounds.items()}
    write_csv(frame(judge(experiment, scale, runs, bounds)), folder / "claims.csv")
