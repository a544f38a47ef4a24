"""A run on disk: what is written, how it gets there whole, and how it is read back.

A run's folder holds `scenario.yaml`, five tables (`rounds`, `events`, `clients`, `ledger`, `spending`, as Parquet),
`summary.json`, `timing.json`; where the scenario asks for them a recording (`messages.jsonl`), the numbers of each
client (`per_client.parquet`) and the models that it keeps (`models/`, see `asyncfl.kept_models`); and what an audit
found (`audit.parquet`, `disproved-<seed>.npz` and `.txt`). Everything but `timing.json` is the same bytes whenever the
same scenario is run on the same machine with the same number of threads and the same library for matrix products
(`learning.gemm`, told in `timing.json`). `summary.json` is there only while all the others are;
`asyncfl.files.own_folder` says whose folders are written to.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from asyncfl.description import fields_of
from asyncfl.errors import OutputError, RunError, ScenarioError, shortened
from asyncfl.files.own_folder import FORMAT, OwnFolder, write_json
from asyncfl.files.yaml_text import read_yaml
from asyncfl.kept_models import kept_module, models_in, write_models
from asyncfl.run_files import read_mapping, read_summary, read_table
from asyncfl.run_plots import plot_clients, plot_rounds
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd
    import torch
    from matplotlib.figure import Figure

TABLES = ("rounds", "events", "clients", "ledger", "spending")
"""Names of a run's tables."""

AUDIT = "audit"
"""Name of the table of a run that was audited."""

PER_CLIENT = "per_client"
"""Name of the table of a run whose clients were looked at one by one."""

ASKED_FOR = (AUDIT, PER_CLIENT)
"""Names of the tables that only some runs have."""

EXAMPLES = ("disproved-*.npz", "disproved-*.txt")
"""Files of examples that an audit found."""

MESSAGES = "messages.jsonl"
"""What the servers of a run heard and answered, where `evaluation.record` asks for it."""

COMPLETE = "summary.json"
"""The file without which a folder is no run."""

SIMULATED, LIVE = "run", "live run"
"""What the mark of a folder says of the run in it."""


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
    files: dict[str, bytes] = field(default_factory=dict)
    """Name -> what it holds, of the files of examples that an audit found."""
    models: dict[tuple[int, int], bytes | Path] = field(default_factory=dict)
    """(seed, version) -> a kept model as safetensors, or the file that holds it; `model` gives the module back."""

    def model(self, version: int | None = None, seed: int | None = None, client: int | None = None) -> torch.nn.Module:
        """The network as an `nn.Module` on the CPU, with the weights that `evaluation.keep` kept.

        version: which one, of several that were kept; null: the newest. seed: of which run, where there are several
        seeds; null: the first. client: whose model, where `model.personal` leaves clients layers of their own. Raises
        RunError where that model was not kept, there is no such client, or the file is damaged.
        """
        return kept_module(self.scenario, self.models, version, seed, client)

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

    @cached_property
    def audit(self) -> pd.DataFrame:
        """One row per release of an audited client and kind of twin, see `asyncfl.columns.AuditTable`; raises KeyError
        where the run was not audited."""
        return self._frame(AUDIT)

    @cached_property
    def per_client(self) -> pd.DataFrame:
        """One row per seed, version and client, see `asyncfl.columns.PerClientTable`; raises KeyError where
        `evaluation.clients_every` did not ask for it."""
        return self._frame(PER_CLIENT)

    def plot(self, y: str | None = None, x: str = "version", by_client: bool = False) -> Figure:
        """A matplotlib figure of the column `y` of the table of rounds over another, a line for each seed.

        y: null for the test accuracy, of a regression R^2. x: `version`, `time_s` (virtual seconds), `epsilon` (of the
        most exposed client, exact), or any column. by_client: of the table `per_client` instead, `loss` (null) or
        `accuracy` of the median client, of eight in ten, and of the worst decile. Raises RunError where there is no
        such column, or nothing in it.
        """
        if not by_client:
            return plot_rounds(self.rounds, y, x)
        if PER_CLIENT not in self.tables:
            raise RunError("the run did not look at single clients; run it with evaluation.clients_every: 5, or so")
        return plot_clients(self.per_client, y or "loss", x)

    def _frame(self, name: str) -> pd.DataFrame:
        frame: pd.DataFrame = self.tables[name].to_pandas()
        return frame

    def save(self, folder: str | Path, *, force: bool = False, holds: str = SIMULATED) -> Path:
        """Write the run to `folder`, which must be new or empty or hold such a run; returns the folder.

        force: a run of another scenario may be replaced. holds: SIMULATED or LIVE, neither of which is taken for the
        other. Raises OutputError; what was there is then as it was.
        """
        own = RunFolder(Path(folder), self.scenario, holds)
        own.check(force)
        with own.working(force) as area:
            own.replace(area, self.write_to, COMPLETE)
        return own.folder

    def write_to(self, folder: Path) -> None:
        """Write all files of the run into `folder`, as it is. Raises OSError."""
        (folder / "scenario.yaml").write_text(self.scenario.to_yaml(), encoding="utf-8")
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        for name in (*TABLES, *(name for name in ASKED_FOR if name in self.tables)):
            # Opened here: pyarrow would take a folder's name that holds a colon for an address.
            with (folder / f"{name}.parquet").open("wb") as file:
                pq.write_table(self.tables[name], file, compression="zstd")
        write_models(self.models, folder, len(self.summary["seeds"]))
        if self.messages:
            self._write_messages(folder / MESSAGES)
        write_json(self.timing, folder / "timing.json")
        write_json(self.summary, folder / COMPLETE)

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
            if (written := summary.get("format", FORMAT)) != FORMAT:
                raise RunError(
                    f"{folder} holds a run of format {written}, this program reads format {FORMAT}; "
                    "run its scenario.yaml again"
                )
            names = (*TABLES, *(name for name in ASKED_FOR if (folder / f"{name}.parquet").exists()))
            tables = {name: read_table(folder, name) for name in names}
            timing = read_mapping(folder / "timing.json")
        except FileNotFoundError as error:
            raise RunError(f"{folder} holds no run: {Path(error.filename).name} is missing") from None
        without = set(map(int, summary["seeds"])) - set(tables["rounds"]["seed"].unique().to_pylist())
        if without:
            raise RunError(f"{folder} holds no whole run: rounds.parquet has no row of seed {min(without)}")
        # A recording may be large and is hardly ever wanted: it stays where it is.
        messages: list[str | Path] = [folder / MESSAGES] if (folder / MESSAGES).exists() else []
        files = {path.name: path.read_bytes() for pattern in EXAMPLES for path in sorted(folder.glob(pattern))}
        models = models_in(folder, list(map(int, summary["seeds"])))
        return cls(Scenario.load(folder / "scenario.yaml"), tables, summary, timing, messages, files, models)


class RunFolder(OwnFolder):
    """A folder for the run of a scenario."""

    def __init__(self, folder: Path, scenario: Scenario, holds: str = SIMULATED) -> None:
        super().__init__(folder, holds, scenario.digest())
        self._wanted = scenario.resolved()

    def check_new(self) -> None:
        """Raises OutputError where anything lies there: what happened in real time cannot be run again."""
        if self.mark() is not None:
            raise OutputError(f"cannot write {self.folder}: it holds a {self.holds} already; name another folder")

    def difference(self) -> str:
        """The fields that differ from those of the run that lies there or was begun there."""
        for there in (self.folder, *self.kept()):
            with suppress(ScenarioError):
                return _difference(read_yaml(there / "scenario.yaml"), self._wanted)
        return ""


def _difference(there: Any, here: Any) -> str:
    fields = fields_of(there), fields_of(here)
    names = [name for name in {**fields[1], **fields[0]} if fields[0].get(name, _NONE) != fields[1].get(name, _NONE)]
    kinds = tuple(name.removesuffix("kind") for name in names if name.endswith(".kind"))
    # With the kind of a component all its fields differ, which says nothing more.
    names = [name for name in names if name.endswith(".kind") or not name.startswith(kinds)]
    if not names:
        return " (its fields are the same; a profile, a component of your own or the format of runs has changed)"
    told = [f"{name} is {_short(fields[0], name)} there and {_short(fields[1], name)} here" for name in names[:4]]
    return f" ({'; '.join(told)}{f'; and {len(names) - 4} more' if len(names) > 4 else ''})"


_NONE = object()


def _short(fields: dict[str, Any], name: str) -> str:
    return shortened(json.dumps(fields[name], default=str), 40) if name in fields else "absent"
