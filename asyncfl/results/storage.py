"""Write runs to disk completely or not at all, and read them back.

A run's folder holds `scenario.yaml`, six tables (`rounds`, `events`, `tasks`, `clients`, `ledger`, `spending`, as
Parquet), `summary.json` and `timing.json`; where the scenario asks for it, a recording (`messages.jsonl`), measurements
by client (`per_client.parquet`) and kept models (`models/`); after an audit `audit.parquet`, `disproved-<seed>.npz` and
`.txt`. On one machine, with the same threads, matrix library and kernels (see `timing.json`), equal scenarios give
equal bytes in all files but `timing.json`. `summary.json` is written last: a folder without it holds no complete run.
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

from asyncfl.base.component import kind_of
from asyncfl.base.description import fields_of
from asyncfl.base.errors import OutputError, RunError, ScenarioError, shortened
from asyncfl.base.files.own_folder import FORMAT, PARTIAL, FolderMark, OwnFolder, write_json
from asyncfl.base.files.reading import read_bytes
from asyncfl.base.files.yaml_text import read_yaml
from asyncfl.base.former_names import with_current_names
from asyncfl.results.earlier_tasks import tasks_in
from asyncfl.results.model_files import kept_module, models_in, write_models
from asyncfl.results.run_card import run_card
from asyncfl.results.run_files import check_unchanged, read_mapping, read_scenario, read_summary, read_table
from asyncfl.results.run_plots import plot_clients, plot_rounds
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd
    import torch
    from matplotlib.figure import Figure

TABLES = ("rounds", "events", "tasks", "clients", "ledger", "spending")
"""Names of a run's tables."""

AUDIT = "audit"
"""Name of the table of audit results."""

PER_CLIENT = "per_client"
"""Name of the table of measurements by client."""

ASKED_FOR = (AUDIT, PER_CLIENT)
"""Names of optional tables."""

EXAMPLES = ("disproved-*.npz", "disproved-*.txt")
"""Files of neighbouring samples that disprove an assumed sensitivity."""

MESSAGES = "messages.jsonl"
"""File of the recorded messages and actions of the servers, where `evaluation.record` asks for it."""

COMPLETE = "summary.json"
"""File that marks a complete run; it is written last."""

SIMULATED, LIVE = "run", "live run"
"""Kinds of runs, as the mark of a folder names them."""


def _frame(name: str, doc: str) -> cached_property[pd.DataFrame]:
    """Return a property of a run: its table `name` as a frame."""

    def frame(run: Run) -> pd.DataFrame:
        found: pd.DataFrame = run.tables[name].to_pandas()
        return found

    frame.__doc__ = doc
    return cached_property(frame)


@dataclass(repr=False)
class Run:
    """Result of a scenario: the tables of all its seeds, and a summary."""

    scenario: Scenario
    tables: dict[str, pa.Table]
    """Tables by name: those in `TABLES`, and optional ones in `ASKED_FOR`."""
    summary: dict[str, Any]
    """Content of `summary.json`: hash, versions of libraries, notes, privacy statements, results by seed."""
    timing: dict[str, Any] = field(default_factory=dict)
    """Content of `timing.json`: seed -> seconds of the stages, the matrix library and the kernels."""
    messages: list[str | Path] = field(default_factory=list)
    """Recorded messages of the seeds' servers, as texts or as files; see `asyncfl.protocol.recording`."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Example files of an audit: name -> content."""
    models: dict[tuple[int, int], bytes | Path] = field(default_factory=dict)
    """Kept models: (seed, version) -> safetensors bytes or their file; `model` loads one as a module."""
    recorded: dict[str, Any] | None = None
    """Content of `scenario.yaml`; None: the run was not read from disk."""

    @property
    def description(self) -> dict[str, Any]:
        """The resolved scenario as plain values."""
        return self.scenario.resolved() if self.recorded is None else self.recorded

    @property
    def title(self) -> str:
        """What was simulated, in a few words: `buffered on mnist, label_flip`."""
        scenario = self.scenario
        parts = [f"{kind_of(scenario.protocol)} on {', '.join(scenario.data.names)}"]
        parts += [] if scenario.threats is None else [kind_of(scenario.threats.attack)]
        parts += [] if kind_of(scenario.privacy) == "none" else [kind_of(scenario.privacy)]
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"<Run: {self.title}; {', '.join(f'{name} {len(table)}' for name, table in self.tables.items())}>"

    def _repr_html_(self) -> str:
        return run_card(self.title, self.tables, self.summary)

    def model(self, version: int | None = None, seed: int | None = None, client: int | None = None) -> torch.nn.Module:
        """Load one of the models kept by `evaluation.keep`, as an `nn.Module` on the CPU.

        `version`: None for the newest that was kept. `seed`: None for the first. `client`: client whose personal
        layers to use, if `model.personal` gives clients layers of their own. Raises RunError if that model was not
        kept, if there is no such client, or if the file is damaged.
        """
        return kept_module(self.scenario, self.summary.get("data", {}), self.models, version, seed, client)

    rounds = _frame(
        "rounds", "One row per seed and published version: time, losses, accuracy, noise, staleness, traffic."
    )
    events = _frame("events", "One row per event, see `asyncfl.protocol.events.EventsTable`.")
    tasks = _frame("tasks", "One row per seed and task: times of its phases, traffic, fate, and its trained update.")
    clients = _frame("clients", "One row per seed and client: samples, tasks, updates used, exposures.")
    ledger = _frame("ledger", "One row per seed and guarantee: releases, claimed epsilon, epsilons by accounting.")
    spending = _frame("spending", "Epsilon of clients and models so far at each version, see `privacy.spending`.")
    audit = _frame(
        AUDIT, "One row per release of an audited client and kind of neighbouring data; KeyError without audit."
    )
    per_client = _frame(
        PER_CLIENT, "One row per seed, version and client; KeyError without `evaluation.clients_every`."
    )

    def plot(self, y: str | None = None, x: str = "version", by_client: bool = False) -> Figure:
        """Plot the column `y` of `rounds` over `x`, one line a seed, and return the matplotlib figure.

        `y`: None for the test accuracy, or R^2 of a regression. `x`: `version`, `time_s` (virtual seconds), `epsilon`
        (exact, of the most exposed client), or any column. `by_client`: plot `loss` (None) or `accuracy` of the table
        `per_client` instead: the median client, the middle eight of ten, and the worst decile. Raises RunError where
        the column is missing or empty.
        """
        if not by_client:
            return plot_rounds(self.rounds, y, x)
        if PER_CLIENT not in self.tables:
            raise RunError(
                "the run holds no measurements by client; run it with evaluation.clients_every: 5, for example"
            )
        return plot_clients(self.per_client, y or "loss", x)

    def save(self, folder: str | Path, *, force: bool = False, holds: str = SIMULATED) -> Path:
        """Write the run to `folder`, which must be new, empty, or hold a run of the same kind. Return the folder.

        `force`: replace a run of another scenario. `holds`: SIMULATED or LIVE; a run of one kind never replaces one of
        the other. Raises OutputError, and then leaves the folder unchanged.
        """
        own = RunFolder(Path(folder), self.scenario, holds)
        own.check(force)
        with own.working(force) as area:
            own.replace(area, self.write_to, COMPLETE)
        return own.folder

    def write_to(self, folder: Path) -> None:
        """Write all files of the run into an existing `folder`. Raises OSError."""
        (folder / "scenario.yaml").write_text(self.scenario.to_yaml(), encoding="utf-8")
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        for name in (*TABLES, *(name for name in ASKED_FOR if name in self.tables)):
            # Opened here, because pyarrow takes a path with a colon for a URI.
            with (folder / f"{name}.parquet").open("wb") as file:
                pq.write_table(self.tables[name], file, compression="zstd")
        write_models(self.models, folder, len(self.summary["seeds"]))
        if self.messages:
            self._write_messages(folder / MESSAGES)
        write_json(self.timing, folder / "timing.json")
        write_json(self.summary, folder / COMPLETE)

    def _write_messages(self, path: Path) -> None:
        """Write the recorded messages of all seeds into one file."""
        with path.open("w", encoding="utf-8") as file:
            for part in self.messages:
                if isinstance(part, str):
                    file.write(part)
                    continue
                with part.open(encoding="utf-8") as source:
                    shutil.copyfileobj(source, file)

    @classmethod
    def load(cls, folder: str | Path, own_code: bool = True) -> Run:
        """Load the run in `folder`. Raises RunError where it is missing, incomplete, or changed since it was written.

        `own_code`: whether to import the components of the user's own that its scenario names. Without them the parts
        of `scenario` that name one hold plain fields, and can be neither simulated nor changed.
        """
        folder = Path(folder)
        try:
            summary = read_summary(folder / COMPLETE)
            if (found := summary.get("format", FORMAT)) != FORMAT:
                raise RunError(
                    f"{folder} holds a run of format {found}, this program reads format {FORMAT}; "
                    "run its scenario.yaml again"
                )
            names = [name for name in TABLES if name != "tasks"]
            names += [name for name in ASKED_FOR if (folder / f"{name}.parquet").exists()]
            tables = {name: read_table(folder, name) for name in names}
            tables["tasks"] = tasks_in(folder, tables["events"])
            tables = {name: tables[name] for name in (*TABLES, *ASKED_FOR) if name in tables}
            names += ["tasks"] if (folder / "tasks.parquet").exists() else []
            timing = read_mapping(folder / "timing.json")
        except FileNotFoundError as error:
            missing = Path(error.filename).name
            raise RunError(f"{folder} holds no run: {missing} is missing{_instead(folder)}") from None
        without = set(map(int, summary["seeds"])) - set(tables["rounds"]["seed"].unique().to_pylist())
        if without:
            raise RunError(f"{folder} holds no complete run: rounds.parquet has no row of seed {min(without)}")
        # A recording may be large and is seldom read: it stays on disk.
        messages: list[str | Path] = [folder / MESSAGES] if (folder / MESSAGES).is_file() else []
        examples = [path for pattern in EXAMPLES for path in sorted(folder.glob(pattern)) if path.is_file()]
        files = {path.name: read_bytes(path) for path in examples}
        models = models_in(folder, list(map(int, summary["seeds"])))
        scenario, recorded = read_scenario(folder / "scenario.yaml", own_code)
        check_unchanged(folder, ("scenario.yaml", COMPLETE, *(f"{name}.parquet" for name in names), *files))
        return cls(scenario, tables, summary, timing, messages, files, models, recorded)


def _instead(folder: Path) -> str:
    """Return the end of a message about a folder without a run: its contents, if they are of this program."""
    mark = FolderMark.read(folder)
    if mark is not None and mark.whole and mark.holds not in (SIMULATED, LIVE):
        return f"; it holds a {mark.holds}"
    if any((folder / PARTIAL).glob("*")):
        goes_on = mark is None or mark.holds == SIMULATED
        return "; its run is not finished" + (", and `asyncfl run` to the same folder continues it" if goes_on else "")
    return ""


class RunFolder(OwnFolder):
    """Folder that holds, or is to hold, the run of one scenario."""

    volatile = ("timing.json",)

    def __init__(self, folder: Path, scenario: Scenario, holds: str = SIMULATED) -> None:
        super().__init__(folder, holds, scenario.digest())
        self._scenario, self._wanted = scenario, scenario.resolved()

    def is_named(self, scenario: str) -> bool:
        return super().is_named(scenario) or self._scenario.is_named(scenario)

    def check_new(self) -> None:
        """Raise OutputError unless the folder is unused: a live run cannot be repeated, so it is never overwritten."""
        mark = self.mark()
        if mark is not None and (mark.whole or mark.files):
            raise OutputError(f"cannot write {self.folder}: it holds a {self.holds} already; name another folder")
        if any(self.checkpoints()):
            raise OutputError(f"cannot write {self.folder}: it holds a run that is not finished; name another folder")

    def difference(self) -> str:
        """Return a text that lists the fields in which the scenario of the folder's run differs; empty if it cannot be
        read."""
        for there in (self.folder, *self.kept()):
            with suppress(ScenarioError):
                there_now = with_current_names(read_yaml(there / "scenario.yaml"), Scenario)
                return _difference(there_now, self._wanted)
        return ""


def _difference(there: Any, here: Any) -> str:
    """Return the end of a message that lists the fields in which two resolved scenarios differ."""
    fields = fields_of(there), fields_of(here)
    names = [name for name in {**fields[1], **fields[0]} if fields[0].get(name, _NONE) != fields[1].get(name, _NONE)]
    kinds = tuple(name.removesuffix("kind") for name in names if name.endswith(".kind"))
    # Where the kind of a component differs, its other fields are not worth listing.
    names = [name for name in names if name.endswith(".kind") or not name.startswith(kinds)]
    if not names:
        return " (its fields are the same; a profile, a component of your own or the format of runs has changed)"
    parts = [f"{name} is {_short(fields[0], name)} there and {_short(fields[1], name)} here" for name in names[:4]]
    return f" ({'; '.join(parts)}{f'; and {len(names) - 4} more' if len(names) > 4 else ''})"


_NONE = object()


def _short(fields: dict[str, Any], name: str) -> str:
    """Return the value of the field `name` for a message, shortened, or `absent`."""
    return shortened(json.dumps(fields[name], default=str), 40) if name in fields else "absent"
