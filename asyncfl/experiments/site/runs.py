"""Pages of runs: the first seed of each cell, as `asyncfl view` shows it, as far as there is room for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from asyncfl.base.errors import AsyncflError
from asyncfl.base.files.atomic import write_text
from asyncfl.experiments.finished import Finished
from asyncfl.experiments.grid import describe
from asyncfl.experiments.run_tables import read_csv
from asyncfl.federation.storage import Run
from asyncfl.view import Window, page

FOLDER = "runs"
"""Where they lie, below the folder of the papers' pages."""
ROOM_BYTES = 40_000_000
"""Of all pages together. Each holds the program that draws it; runs beyond are for `asyncfl view`."""


def write_run_pages(root: Path, done: Sequence[Finished], folder: Path, room_bytes: int = ROOM_BYTES) -> int:
    """Number of pages that were written to `folder`: the first cell of each experiment, then the second, and so on.

    root: the results folder. A run that cannot be shown, as its data are gone for instance, has none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written, taken = 0, 0
    for digest, name in _in_turn(done):
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


def _in_turn(done: Sequence[Finished]) -> Iterator[tuple[str, str]]:
    """(digest, name) of each run once."""
    seen = set()
    for cells in zip_longest(*(_cells(item) for item in done)):
        for found in cells:
            if found is not None and found[0] not in seen:
                seen.add(found[0])
                yield found


def _cells(item: Finished) -> list[tuple[str, str]]:
    axes = list(item.experiment.grid(item.scale))
    rows = read_csv(item.folder / "cells.csv").to_dict("records")
    named = [(str(row["run"]), describe({axis: row[axis] for axis in axes})) for row in rows]
    return [(digest, f"{item.experiment.name}: {cell}" if cell else item.experiment.name) for digest, cell in named]
