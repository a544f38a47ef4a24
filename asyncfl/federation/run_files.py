"""Read and check single files of a run. Messages name the damaged file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from asyncfl.base.errors import RunError
from asyncfl.base.files.parquet import read_parquet
from asyncfl.base.files.reading import read_bytes
from asyncfl.trace.events import SCHEMA

_INTEGER, _NUMBER, _TEXT = "whole numbers", "numbers", "text"

_OF_A_SEED = {"seed": _INTEGER}
_MEASURED = ("time_s", "train_loss", "test_loss", "test_accuracy")


def _kind_of_values(kind: pa.DataType) -> str:
    """Return the kind of values of a column type: `whole numbers`, `numbers`, `text`, or the name of the type."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind):
        return _INTEGER
    if types.is_floating(kind):
        return _NUMBER
    return _TEXT if types.is_string(kind) or types.is_large_string(kind) else str(kind)


NEEDED: dict[str, dict[str, str]] = {
    "rounds": _OF_A_SEED | {"version": _INTEGER} | dict.fromkeys(_MEASURED, _NUMBER),
    "events": {column.name: _kind_of_values(column.type) for column in SCHEMA},
    "clients": _OF_A_SEED | {"client": _INTEGER},
    "ledger": _OF_A_SEED | {"client": _INTEGER, "adversary": _TEXT},
    "spending": _OF_A_SEED
    | dict.fromkeys(("client", "version"), _INTEGER)
    | dict.fromkeys(("holder", "adversary"), _TEXT)
    | dict.fromkeys(("time_s", "exact_epsilon"), _NUMBER),
    "per_client": _OF_A_SEED
    | dict.fromkeys(("version", "client"), _INTEGER)
    | dict.fromkeys(("time_s", "loss", "accuracy"), _NUMBER),
    "audit": _OF_A_SEED
    | dict.fromkeys(("client", "version", "task"), _INTEGER)
    | dict.fromkeys(("holder", "adversary", "kind"), _TEXT)
    | dict.fromkeys(("distance", "sensitivity", "epsilon"), _NUMBER),
}
"""Required columns: table -> column -> kind of values. Tables may have others."""

_OF_A_SUMMARY = {"versions": int, "virtual_s": int | float, "stopped": str, "notes": list, "fates": dict, "tasks": dict}

_COUNTS = ("fates", "tasks")

LARGEST_JSON = 100_000_000
"""Largest size of a JSON file of a run, in bytes."""
MOST_THREADS = 1024
"""Most threads that a run can have been computed with."""


def read_table(folder: Path, name: str) -> pa.Table:
    """Read the table `name` of the run in `folder`. Raises RunError, FileNotFoundError."""
    path = folder / f"{name}.parquet"
    try:
        table = read_parquet(path)
        # In a truncated file, indices may point beyond the dictionary of strings.
        table.validate(full=True)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, LookupError, MemoryError, pa.ArrowException) as error:
        raise RunError(f"{path} cannot be read as a table: {_first_line(error)}; the file is damaged") from None
    found = {column.name: _kind_of_values(column.type) for column in table.schema}
    missing = [one for one in NEEDED[name] if one not in found]
    faults = [f"column {', '.join(missing)} is missing"] if missing else []
    faults += [
        f"column {one} must hold {wanted}, got {found[one]}"
        for one, wanted in NEEDED[name].items()
        if found.get(one, wanted) != wanted
    ]
    faults += [f"column {one} has gaps" for one in NEEDED[name] if not faults and table[one].null_count]
    if faults:
        raise RunError(
            f"{path} is no table of {name}: {'; '.join(faults)}; its columns are {', '.join(found) or 'none'}"
        )
    return table


def read_mapping(path: Path) -> dict[str, Any]:
    """Read the JSON file `path`, which must hold a mapping. Raises RunError, FileNotFoundError."""
    try:
        value = json.loads(read_bytes(path, LARGEST_JSON))
    except FileNotFoundError:
        raise
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
        if unsound:
            raise RunError(f"{path} says nothing sound of {', '.join(unsound)} of seed {seed}; the file is damaged")
    return summary


def _holds_counts(value: Any) -> bool:
    """Whether a value maps names to whole numbers."""
    return isinstance(value, dict) and all(type(count) is int for count in value.values())


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's message, at most 200 characters; its type if it has no message."""
    said = str(getattr(error, "strerror", None) or error).strip()
    return (said or type(error).__name__).splitlines()[0][:200]


def conditions_of(folder: Path, seed: int) -> tuple[int, str]:
    """Return the number of threads of the run in `folder`, and the matrix library (`gemm`) of `seed`.

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
        return threads, str(read_mapping(timing)[str(seed)]["gemm"])
    except (FileNotFoundError, KeyError, TypeError):
        raise RunError(f"{timing} does not say how seed {seed} multiplied matrices") from None
