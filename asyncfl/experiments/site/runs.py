"""Pages of runs: the first seed of each cell, as `asyncfl view` shows it, as far as there is room for them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from asyncfl.base.errors import AsyncflError
from asyncfl.base.files.atomic import write_text
from asyncfl.experiments.csv_files import read_csv
from asyncfl.experiments.grid import describe
from asyncfl.experiments.verdicts import Finished
from asyncfl.federation.storage import Run
from asyncfl.view import Window, page

FOLDER = "runs"
"""Where they lie, below the folder of the papers' pages."""
ROOM_BYTES = 40_000_000
"""Of all pages together. Each holds the program that draws it; runs beyond are for `asyncfl view`."""


def write_run_pages(root: Path, done: Sequence[Finished], folder: Path, room_bytes: int = ROOM_BYTES) -> int:
    """Write pages to `folder` and return their number: the first cell of each experiment, then the second, and so on.

    root: the results folder. A run that cannot be shown, as its data are gone for instance, has none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written, taken = 0, 0
    names: dict[str, str] = {}
    for cells in zip_longest(*map(_cells, done)):
        for digest, name in (cell for cell in cells if cell is not None):
            names.setdefault(digest, name)
    for digest, name in names.items():
        place = root / "runs" / digest
        if not place.is_dir():
            continue
        try:
            run = Run.load(place)
            text = page(run, name, window=Window(seed=run.scenario.seeds[0]))
        except AsyncflError as error:
            print(f"{digest}: {error}")
            continue
        taken += len(text.encode())
        if taken > room_bytes:
            break
        write_text(text, folder / f"{digest}.html")
        written += 1
    return written


def run_pages(folder: Path) -> dict[str, str]:
    """Digest of a run -> path of its page from the papers' pages, of those in `folder`."""
    return {path.stem: f"{FOLDER}/{path.name}" for path in sorted(folder.glob("*.html"))}


def _cells(item: Finished) -> list[tuple[str, str]]:
    """(digest, name) of each run of an experiment."""
    axes, found = list(item.experiment.grid(item.scale)), []
    for row in read_csv(item.folder / "cells.csv").to_dict("records"):
        cell = describe({axis: row[axis] for axis in axes})
        found.append((str(row["run"]), f"{item.experiment.name}: {cell}" if cell else item.experiment.name))
    return found
