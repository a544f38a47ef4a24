"""Snapshots of a seed on disk while it runs, so that its progress can be viewed.

    FOLDER/.partial/CONDITIONS/seed-3.at-12.unfinished/   scenario.yaml, rounds.parquet, events.parquet, tasks.parquet

This is seed 3 when version 12 was evaluated. Runs are not resumed from snapshots; they are removed when the run ends
(`base.files.own_folder`). A snapshot gets its final name when it is complete, and only then replaces the previous.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from asyncfl.base.errors import AsyncflError
from asyncfl.base.files.own_folder import PARTIAL
from asyncfl.base.instrument import Instrument, PartialTables
from asyncfl.results.earlier_tasks import tasks_in
from asyncfl.results.run_files import read_scenario, read_table
from asyncfl.scenario import Scenario

EVERY_S = 2.0
"""Least time between two snapshots, in seconds."""

SHARE = 0.05
"""Largest share of a run's time that snapshots may take."""

WRITING = "writing.unfinished"
"""Name of a snapshot while it is written."""

NAME = re.compile(r"seed-(\d+)\.at-(\d+)\.unfinished")


@dataclass(frozen=True)
class Snapshot:
    """Tables of an unfinished seed."""

    scenario: Scenario
    seed: int
    version: int
    """Latest version in the tables."""
    tables: dict[str, pa.Table]
    """`rounds`, `events` and `tasks`."""


class Snapshots(Instrument):
    """Writer of snapshots of a seed into the folder `place`. A full disk does not stop the run."""

    def __init__(
        self, place: Path, scenario: Scenario, seed: int, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._place, self._scenario, self._seed, self._clock_s = place, scenario, seed, clock_s
        self._next_s = clock_s() + EVERY_S
        # Left over by a run that was killed.
        self.clear()

    def so_far(self, version: int, tables: PartialTables) -> None:
        """Write a snapshot of `version`, unless the last one is too recent."""
        began_s = self._clock_s()
        if began_s < self._next_s:
            return
        try:
            self._write(version, tables())
        except OSError:
            # The run itself needs the remaining space.
            shutil.rmtree(self._place / WRITING, ignore_errors=True)
        ended_s = self._clock_s()
        self._next_s = ended_s + max(EVERY_S, (ended_s - began_s) / SHARE)

    def _write(self, version: int, tables: Mapping[str, pa.Table]) -> None:
        writing = self._place / WRITING
        shutil.rmtree(writing, ignore_errors=True)
        writing.mkdir(parents=True)
        (writing / "scenario.yaml").write_text(self._scenario.to_yaml(), encoding="utf-8")
        for name, table in tables.items():
            with (writing / f"{name}.parquet").open("wb") as file:
                pq.write_table(table, file)
        older = self._written()
        os.replace(writing, self._place / f"seed-{self._seed}.at-{version}.unfinished")
        for path in older:
            shutil.rmtree(path, ignore_errors=True)

    def _written(self) -> list[Path]:
        return [path for path in self._place.glob("*.unfinished") if NAME.fullmatch(path.name)]

    def clear(self) -> None:
        """Remove all snapshots."""
        for path in (*self._written(), self._place / WRITING):
            shutil.rmtree(path, ignore_errors=True)


def snapshot_in(folder: Path) -> Snapshot | None:
    """Load and return the newest snapshot below a run's folder; None without one, or where it is removed meanwhile."""
    places = [(NAME.fullmatch(path.name), path) for path in folder.glob(f"{PARTIAL}/*/*")]
    found = [(int(named[1]), int(named[2]), path) for named, path in places if named is not None]
    for seed, version, path in sorted(found, reverse=True):
        with suppress(OSError, AsyncflError):
            tables = {name: read_table(path, name) for name in ("rounds", "events")}
            tables["tasks"] = tasks_in(path, tables["events"])
            scenario, _ = read_scenario(path / "scenario.yaml", own_code=False)
            return Snapshot(scenario, seed, version, tables)
    return None
