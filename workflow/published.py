"""Draw the figures and pages of published results from their tables, as `make docs` shows them.

In the repository are tables, verdicts and their provenance. A figure is there too, packed, where the tables that it is
drawn from are too large to be published.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import matplotlib
import pandas as pd

from asyncfl.base.files.atomic import write_text
from asyncfl.experiments.analysis import CAPTIONS, make_figures
from asyncfl.experiments.csv_files import PICTURES, is_table, read_csv, write_csv
from asyncfl.experiments.figures import Figure
from asyncfl.experiments.intervals import over_seeds
from asyncfl.experiments.report import write_report
from asyncfl.experiments.spec import Experiment
from asyncfl.experiments.verdicts import finished, with_new_axes
from asyncfl.results.figure_style import saving

ROOT = Path(__file__).resolve().parents[1]
PACKED = ".svg.gz"
"""Ending of a figure that is published."""
LIST = "experiments.csv"
"""The table of all experiments: published when, made by which code, or why not."""
MEANS = "final.csv"
"""Table of means over seeds. It follows from the ends of runs and is not published, but made with the figures."""
STAMP = ".digest"
"""File of a drawn experiment with a digest of what it was drawn from."""
DRAWING = ("asyncfl/experiments", "asyncfl/results/figure_style.py", "workflow/published.py")
"""Files and folders of the code that draws."""


def is_there(folder: Path, table: str) -> bool:
    """Return whether a published experiment has a table, or one that it follows from."""
    others = {"curves": ("curves.csv", "rounds.csv"), "final": ("ends.csv",), "pictures": (PICTURES,)}
    names = others.get(table, (f"{table}.csv",))
    return any(is_table(folder / name) for name in names)


def is_drawable(figure: Figure, folder: Path) -> bool:
    """Return whether a figure can be drawn from the published tables of its experiment."""
    return all(is_there(folder, table) for table in figure.tables_read)


def means(experiment: Experiment, ends: pd.DataFrame) -> pd.DataFrame:
    """Return the means over seeds that follow from the ends of an experiment's runs at full scale."""
    axes = list(experiment.grid("full"))
    return over_seeds(ends, axes, by_round=False) if len(ends) else pd.DataFrame()


def draw(experiment: Experiment, folder: Path, into: Path) -> None:
    """Copy the published results of an experiment, with all of its figures as SVG, and their captions.

    Figures of which neither tables nor a packed file are published are left out.
    """
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(folder, into)
    before = read_csv(folder / CAPTIONS) if (folder / CAPTIONS).is_file() else pd.DataFrame()
    rounds = with_new_axes(experiment, read_csv(folder / "rounds.csv")) if is_there(folder, "rounds") else None
    if rounds is not None:
        axes = list(experiment.grid("full"))
        write_csv(over_seeds(rounds, axes, by_round=True) if len(rounds) else rounds, into / "curves.csv")
    elif not is_there(folder, "curves"):
        write_csv(pd.DataFrame(), into / "curves.csv")
    ends, cells = (with_new_axes(experiment, read_csv(folder / f"{table}.csv")) for table in ("ends", "cells"))
    for table, frame in {"ends.csv": ends, "cells.csv": cells, MEANS: means(experiment, ends)}.items():
        write_csv(frame, into / table)
    drawable = [figure.name for figure in experiment.all_figures if is_drawable(figure, folder)]
    with saving("svg"):
        make_figures(experiment, "full", into, names=drawable)
    captions = [*read_csv(into / CAPTIONS).to_dict("records"), *before.to_dict("records")]
    of_name = {row["name"]: row for row in reversed(captions)}
    shown = [of_name[figure.name] for figure in experiment.all_figures if figure.name in of_name]
    write_csv(pd.DataFrame(shown, columns=read_csv(into / CAPTIONS).columns), into / CAPTIONS)
    for file in sorted(into.glob(f"*{PACKED}")):
        (into / file.name.removesuffix(".gz")).write_bytes(gzip.decompress(file.read_bytes()))
    kept = {MEANS, CAPTIONS, *(file.name for file in folder.iterdir())}
    for file in list(into.iterdir()):
        if file.name.endswith(PACKED) or (file.name not in kept and file.suffix != ".svg"):
            file.unlink()


def build(results: Path, experiments: Mapping[str, Experiment], into: Path) -> None:
    """Draw the published results into a folder, with a front page and a page per paper.

    An experiment that was drawn before from the same tables, by the same code, is not drawn again.
    """
    code = _digest(file for name in DRAWING for file in _files(ROOT / name) if file.suffix != ".pyc")
    for item in finished(results, experiments):
        place = into / item.folder.relative_to(results)
        asked = f"{item.experiment.model_dump_json()} {_digest(_files(item.folder))} {code} {matplotlib.__version__}"
        stamp = hashlib.sha256(asked.encode()).hexdigest()
        if not (place / STAMP).is_file() or (place / STAMP).read_text() != stamp:
            draw(item.experiment, item.folder, place)
            write_text(stamp, place / STAMP)
    for place in into.glob("full/*/*"):
        is_drawn = (place / STAMP).is_file() and not place.is_symlink()
        if is_drawn and not (results / place.relative_to(into)).is_dir():  # published no more
            shutil.rmtree(place)
    table = read_csv(results / LIST)
    why = table["not_run"].astype(object).fillna("")
    write_report(into, experiments, not_run=dict(zip(table["experiment"], why, strict=True)))


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
