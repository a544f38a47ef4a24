"""Read and check single files of a run. Messages name the damaged file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from asyncfl.base.component import Described
from asyncfl.base.description import sound_parts
from asyncfl.base.errors import RunError, ScenarioError, system_says
from asyncfl.base.files.own_folder import MARK, FolderMark
from asyncfl.base.files.reading import check_ordinary, read_bytes, read_parquet
from asyncfl.base.files.yaml_text import read_yaml
from asyncfl.base.former_names import with_current_names
from asyncfl.base.own_classes import missing_code
from asyncfl.base.tables import (
    FORMER,
    REQUIRED,
    AuditTable,
    ClientsTable,
    Column,
    LedgerTable,
    PerClientTable,
    RoundsTable,
    SpendingTable,
    TasksTable,
    UploadColumns,
    columns_of,
)
from asyncfl.learning.gemm import Arithmetic
from asyncfl.learning.kernels import TORCH
from asyncfl.protocol.events import EventsTable
from asyncfl.scenario import Scenario

_INTEGER, _NUMBER, _TEXT = "whole numbers", "numbers", "text"


def _kind_of_values(kind: pa.DataType) -> str:
    """Return the kind of values of a column type: `whole numbers`, `numbers`, `text`, or the name of the type."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_list(kind):
        return f"lists of {_kind_of_values(kind.value_type)}"
    if types.is_integer(kind):
        return _INTEGER
    if types.is_floating(kind):
        return _NUMBER
    return _TEXT if types.is_string(kind) or types.is_large_string(kind) else str(kind)


DECLARED: dict[str, tuple[type[Described], ...]] = {
    "rounds": (RoundsTable,),
    "events": (EventsTable,),
    "tasks": (TasksTable, UploadColumns),
    "clients": (ClientsTable,),
    "ledger": (LedgerTable,),
    "spending": (SpendingTable,),
    "per_client": (PerClientTable,),
    "audit": (AuditTable,),
}
"""Table -> its columns of today. A run that an earlier version wrote may lack some; other columns are kept as they
are."""
NEEDED: dict[str, tuple[str, ...]] = {
    "rounds": ("seed", "version", "time_s", "train_loss", "test_loss", "test_accuracy"),
    "events": tuple(name for name, column in columns_of(EventsTable).items() if column.default is REQUIRED),
    "tasks": ("seed", "task", "client", "base_version", "dispatched_s", "outcome", "settled_s", "fate", "making"),
    "clients": ("seed", "client"),
    "ledger": ("seed", "client", "adversary"),
    "spending": ("seed", "client", "version", "holder", "adversary", "time_s", "exact_epsilon"),
    "per_client": ("seed", "version", "client", "time_s", "loss", "accuracy"),
    "audit": ("seed", "client", "version", "task", "holder", "adversary", "kind", "distance", "sensitivity", "epsilon"),
}
"""Table -> columns without which it cannot be read, in any version."""
_OF_A_SUMMARY = {"versions": int, "virtual_s": int | float, "stopped": str, "notes": list, "fates": dict, "tasks": dict}
_COUNTS = ("fates", "tasks")

LARGEST_JSON = 100_000_000
"""Largest size of a JSON file of a run, in bytes."""
MOST_THREADS = 1024
"""Most threads that a run can have been computed with."""


def check_unchanged(folder: Path, names: Iterable[str]) -> None:
    """Raise RunError where one of the files `names` differs from the one that the run wrote, by the folder's mark."""
    mark = FolderMark.read(folder)
    try:
        changed = None if mark is None else mark.changed(folder, names)
    except OSError as error:
        raise RunError(f"{error.filename or folder} cannot be read: {system_says(error)}") from None
    if changed is not None:
        raise RunError(
            f"{folder / changed} was changed after the run was written: its SHA-256 differs from the one in {MARK}; "
            "restore the file, or run scenario.yaml again"
        )


def read_table(folder: Path, name: str) -> pa.Table:
    """Read the table `name` of the run in `folder`; columns that an earlier version did not write are empty.

    Raises RunError, FileNotFoundError.
    """
    path = folder / f"{name}.parquet"
    try:
        table = read_parquet(path)
        # In a truncated file, indices may point beyond the dictionary of strings.
        table.validate(full=True)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, LookupError, MemoryError, pa.ArrowException) as error:
        raise RunError(f"{path} cannot be read as a table: {_first_line(error)}; the file is damaged") from None
    table = table.rename_columns({old: new for old, new in FORMER.get(name, {}).items() if old in table.column_names})
    found = {column.name: _kind_of_values(column.type) for column in table.schema}
    declared, needed = columns_of(*DECLARED[name]), NEEDED[name]
    missing = [one for one in needed if one not in found]
    faults = [f"column {', '.join(missing)} is missing"] if missing else []
    known = {one: _kind_of_values(column.type) for one, column in declared.items()}
    faults += [
        f"column {one} must hold {known[one]}, got {kind}"
        for one, kind in found.items()
        if kind != known.get(one, kind)
    ]
    faults += [f"column {one} has gaps" for one in needed if not faults and table[one].null_count]
    if faults:
        raise RunError(
            f"{path} is no table of {name}: {'; '.join(faults)}; its columns are {', '.join(found) or 'none'}"
        )
    return _completed(table, declared)


def _completed(table: pa.Table, declared: Mapping[str, Column]) -> pa.Table:
    """Return a table with a column of defaults for each declared one that it lacks."""
    for name, column in declared.items():
        if name not in table.column_names:
            values = pa.array([column.missing], column.value_type).take(pa.array(np.zeros(len(table), dtype=np.int64)))
            table = table.append_column(name, values.cast(column.type))
    return table


def read_mapping(path: Path) -> dict[str, Any]:
    """Read the JSON file `path`, which must hold a mapping. Raises RunError, FileNotFoundError."""
    try:
        value = json.loads(read_bytes(path, LARGEST_JSON))
    except FileNotFoundError:
        raise
    except NotADirectoryError:
        raise RunError(f"{path.parent} holds no run: it is no folder") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} cannot be read as JSON: {_first_line(error)}; the file is damaged") from None
    if not isinstance(value, dict):
        raise RunError(f"{path} must hold a mapping; the file is damaged")
    return value


def read_summary(path: Path) -> dict[str, Any]:
    """Read the summary of a run and check its entry for each seed. Raises RunError, FileNotFoundError."""
    summary = read_mapping(path)
    seeds = summary.get("seeds")
    # The summary of a single finished seed, which waits for the others, has no totals.
    if unsound := [name for name in _COUNTS if not _holds_counts(summary.get(name, {}))]:
        raise RunError(f"{path} says nothing sound of {', '.join(unsound)}; the file is damaged")
    if not isinstance(seeds, dict) or not seeds:
        raise RunError(f"{path} has no seeds; the file is damaged")
    for seed, one in seeds.items():
        if not isinstance(one, dict) or not seed.isdecimal():
            raise RunError(f"{path} says nothing of seed {seed[:40]!r}; the file is damaged")
        unsound = [name for name, kind in _OF_A_SUMMARY.items() if not isinstance(one.get(name), kind)]
        unsound += [name for name in _COUNTS if name not in unsound and not _holds_counts(one[name])]
        unsound += [] if "versions" in unsound or _is_count(one["versions"]) else ["versions"]
        if unsound:
            raise RunError(f"{path} says nothing sound of {', '.join(unsound)} of seed {seed}; the file is damaged")
    return summary


def _holds_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_count(count) for count in value.values())


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


class RecordedPart:
    """Part of a scenario that names code of the user's own, which was not imported, or a kind that was removed: its
    fields as they were written."""

    def __init__(self, fields: Mapping[str, Any], removed: str = "") -> None:
        """`removed`: the removed kind; empty: the part names code of the user's own."""
        self._removed = removed
        for name, value in fields.items():
            setattr(self, name, RecordedPart(value, removed) if isinstance(value, dict) else value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._removed:
            raise RunError(f"this needs kind {self._removed}, which the run's scenario names and which was removed")
        raise RunError("this needs the code of your own that the run's scenario names, and reading a run imports none")


def is_read_in_part(scenario: Scenario) -> bool:
    """Whether parts of a scenario that was read name code that is missing, see `RecordedPart`."""
    return any(isinstance(part, RecordedPart) for part in vars(scenario).values())


def removed_kind(scenario: Scenario) -> str:
    """Return the removed kind that a scenario that was read names; empty if it names none."""
    return next((part._removed for part in vars(scenario).values() if isinstance(part, RecordedPart)), "")


def read_scenario(path: Path, own_code: bool) -> tuple[Scenario, dict[str, Any]]:
    """Read the scenario of a run, see `Run.load`; return it and its plain values. Raises RunError, ScenarioError.

    It was checked when the run was made, so that the data and other files that it names need not be there.
    """
    try:
        check_ordinary(path)
    except OSError as error:
        raise RunError(f"{path} cannot be read: {system_says(error)}") from None
    recorded = with_current_names(read_yaml(path), Scenario)
    with missing_code(imports=own_code) as missing:
        try:
            return Scenario.read(recorded, path, check=False), recorded
        except ScenarioError:
            if not missing:
                raise
            parts = sound_parts(Scenario, recorded)
    left_out = [name for name in recorded if name not in parts]
    if "seeds" in left_out or not all(isinstance(recorded[name], dict) for name in left_out):
        raise RunError(f"{path} cannot be read without the code that it names ({missing[0]})")
    if "data" in left_out and type(recorded["data"].get("clients")) is not int:
        raise RunError(f"{path} must say how many clients there are (data.clients)")
    removed = next((name for name in missing if ":" not in name), "")
    recorded_parts: dict[str, Any] = {name: RecordedPart(recorded[name], removed) for name in left_out}
    return Scenario.model_construct(**(parts | recorded_parts)), recorded


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's message, at most 200 characters; its type if it has no message."""
    message = str(getattr(error, "strerror", None) or error).strip()
    return (message or type(error).__name__).splitlines()[0][:200]


def conditions_of(folder: Path, seed: int) -> Arithmetic:
    """Return the number of threads of the run in `folder`, the matrix library (`gemm`) and the kernels of `seed`.

    Raises RunError where the files of the run do not give them.
    """
    summary, timing = folder / "summary.json", folder / "timing.json"
    try:
        threads = read_mapping(summary)["learner"]["threads"]
    except (FileNotFoundError, KeyError, TypeError):
        threads = None
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
        raise RunError(f"{summary} must say with how many threads the run was computed, 1..{MOST_THREADS}")
    try:
        about = read_mapping(timing)[str(seed)]
        # Runs of versions without compiled kernels do not name any.
        return Arithmetic(threads, str(about["gemm"]), str(about.get("kernels", TORCH)))
    except (FileNotFoundError, KeyError, TypeError, AttributeError):
        raise RunError(f"{timing} does not say how seed {seed} multiplied matrices") from None
