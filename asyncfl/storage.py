"""A run on disk: what is written, how it gets there whole, and how it is read back.

A run's folder holds `scenario.yaml`, five tables (`rounds`, `events`, `clients`, `ledger`, `spending`, as Parquet),
`summary.json`, `timing.json`, and `messages.jsonl` where the scenario asks for a recording. Everything but
`timing.json` is the same bytes whenever the same scenario is run on the same machine with the same number of threads. A
folder appears under its name only when all of it is written.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from asyncfl.errors import OutputError, RunError
from asyncfl.run_files import read_mapping, read_summary, read_table
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

TABLES = ("rounds", "events", "clients", "ledger", "spending")
"""Names of a run's tables."""

MESSAGES = "messages.jsonl"
"""What the servers of a run heard and answered, where `evaluation.record` asks for it."""

COMPLETE = "summary.json"
"""The file without which a folder is no run."""


@dataclass
class Run:
    """What came out of a scenario: tables of all its seeds, and a summary."""

    scenario: Scenario
    tables: dict[str, pa.Table]
    summary: dict[str, Any]
    timing: dict[str, Any] = field(default_factory=dict)
    messages: list[str | Path] = field(default_factory=list)
    """What the servers of the seeds heard and answered, where it was recorded: texts, or files that hold them; see
    `asyncfl.server.recording`."""

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per seed and published version: virtual time, losses, accuracy, noise, staleness, traffic."""
        return self._frame("rounds")

    @cached_property
    def events(self) -> pd.DataFrame:
        """One row per event, see `asyncfl.trace.Event`."""
        return self._frame("events")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One row per seed and client: samples, tasks, updates used, how often it was overheard."""
        return self._frame("clients")

    @cached_property
    def ledger(self) -> pd.DataFrame:
        """One row per seed and holder of a guarantee: what was released, what was claimed, what it is worth."""
        return self._frame("ledger")

    @cached_property
    def spending(self) -> pd.DataFrame:
        """The way to the ledger: epsilon so far of clients and models at each version, see `privacy.spending`."""
        return self._frame("spending")

    def _frame(self, name: str) -> pd.DataFrame:
        frame: pd.DataFrame = self.tables[name].to_pandas()
        return frame

    def save(self, folder: str | Path) -> Path:
        """Write the run to `folder`, which must not exist yet; it appears only when it is whole.

        Raises OutputError.
        """
        return write_folder(Path(folder), self._write)

    def _write(self, folder: Path) -> None:
        (folder / "scenario.yaml").write_text(self.scenario.to_yaml(), encoding="utf-8")
        for name in TABLES:
            pq.write_table(self.tables[name], folder / f"{name}.parquet", compression="zstd")
        if self.messages:
            self._write_messages(folder / MESSAGES)
        write_json(folder / "timing.json", self.timing)
        write_json(folder / COMPLETE, self.summary)

    def _write_messages(self, path: Path) -> None:
        with path.open("w", encoding="utf-8") as file:
            for part in self.messages:
                if isinstance(part, str):
                    file.write(part)
                    continue
                with part.open(encoding="utf-8") as source:
                    shutil.copyfileobj(source, file)

    @classmethod
    def load(cls, folder: str | Path) -> Run:
        """The run in `folder`. Raises RunError where there is none, or not all of one."""
        folder = Path(folder)
        try:
            summary = read_summary(folder / COMPLETE)
            tables = {name: read_table(folder, name) for name in TABLES}
            timing = read_mapping(folder / "timing.json")
        except FileNotFoundError as error:
            raise RunError(f"{folder} holds no run: {Path(error.filename).name} is missing") from None
        without = set(map(int, summary["seeds"])) - set(tables["rounds"]["seed"].unique().to_pylist())
        if without:
            raise RunError(f"{folder} holds no whole run: rounds.parquet has no row of seed {min(without)}")
        # A recording may be large and is hardly ever wanted: it stays where it is.
        messages: list[str | Path] = [folder / MESSAGES] if (folder / MESSAGES).exists() else []
        return cls(Scenario.load(folder / "scenario.yaml"), tables, summary, timing, messages)


def write_folder(folder: Path, write: Callable[[Path], None]) -> Path:
    """Let `write` fill a new folder under a temporary name beside `folder`, then give it that name.

    An older folder of the name is replaced. Raises OutputError where it cannot be written; nothing is left behind then.
    """
    temporary = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        write(temporary)
        temporary.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(temporary, folder)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from None
    finally:
        if temporary is not None and temporary.exists():
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON with sorted keys."""
    path.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
