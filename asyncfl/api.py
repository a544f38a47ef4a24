"""The program as a library: a scenario in, a run out."""

from __future__ import annotations

import platform
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from asyncfl.errors import OutputError
from asyncfl.scenario import FORMAT, Scenario
from asyncfl.simulation import (
    Books,
    SeedRun,
    clients_table,
    rounds_table,
    seed_summary,
    simulate_clock,
    simulate_seed,
)
from asyncfl.storage import COMPLETE, Run

Progress = Callable[[dict[str, Any]], None]
"""Is told each row of the table of rounds as soon as it is known."""


def simulate(scenario: Scenario, progress: Progress | None = None) -> Run:
    """The run of `scenario`, all its seeds, in memory.

    Nothing is written. Raises DataError where the data are missing or too few.
    """
    return gather(scenario, [one_seed(scenario, seed, progress) for seed in scenario.seeds])


def timeline(scenario: Scenario) -> list[SeedRun]:
    """The clock of `scenario` alone, without training: one per seed."""
    return [simulate_clock(scenario, seed) for seed in scenario.seeds]


def execute(
    scenario: Scenario, folder: str | Path, cache: str | Path | None = None, progress: Progress | None = None
) -> Path:
    """Run `scenario` and write it to `folder`, unless it lies there whole already. Returns the folder.

    Each finished seed is kept in `cache` (a folder; None: none are kept) until the run is whole, so that a run that was
    interrupted goes on with the seeds it lacks. Raises OutputError, DataError.
    """
    folder = Path(folder)
    if (folder / COMPLETE).exists():
        return folder
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"cannot write {folder}: a file of that name is in the way")
    parts = []
    kept = None if cache is None else Path(cache) / scenario.digest()
    for seed in scenario.seeds:
        place = None if kept is None else kept / f"seed-{seed}"
        if place is not None and (place / COMPLETE).exists():
            parts.append(Run.load(place))
            continue
        part = one_seed(scenario, seed, progress)
        if place is not None:
            part.save(place)
        parts.append(part)
    gather(scenario, parts).save(folder)
    if kept is not None:
        _forget(kept)
    return folder


def one_seed(scenario: Scenario, seed: int, progress: Progress | None = None) -> Run:
    """The run of one seed of `scenario`."""
    result = simulate_seed(scenario, seed, progress)
    books = Books(scenario, result)
    return Run(
        scenario=scenario,
        tables={
            "rounds": books.with_epsilons(rounds_table(result)),
            "events": result.events,
            "clients": clients_table(result),
            "ledger": books.ledger,
            "spending": books.spending,
        },
        summary={"seeds": {str(seed): seed_summary(result)}},
        timing={str(seed): result.seconds},
        messages=[] if result.recording is None else [result.recording.text()],
    )


def gather(scenario: Scenario, parts: Sequence[Run]) -> Run:
    """One run out of the runs of its seeds."""
    tables = {name: _joined(name, [part.tables[name] for part in parts]) for name in parts[0].tables}
    seeds = {seed: summary for part in parts for seed, summary in part.summary["seeds"].items()}
    first = next(iter(seeds.values()))
    return Run(
        scenario=scenario,
        tables={name: table.unify_dictionaries().combine_chunks() for name, table in tables.items()},
        summary={
            "hash": scenario.digest(),
            "format": FORMAT,
            "versions": _versions(),
            "data": {"dataset": ", ".join(scenario.data.names), **first["data"]},
            "learner": first["learner"],
            "notes": _notes(list(seeds.values())),
            "diverged": [int(seed) for seed, summary in seeds.items() if summary["diverged"]],
            "fates": _total(summary["fates"] for summary in seeds.values()),
            "tasks": _total(summary["tasks"] for summary in seeds.values()),
            "seeds": seeds,
        },
        timing={seed: seconds for part in parts for seed, seconds in part.timing.items()},
        messages=[text for part in parts for text in part.messages],
    )


def _joined(name: str, tables: Sequence[pa.Table]) -> pa.Table:
    # A detector may have had a number to tell of one seed only.
    return pa.concat_tables(tables, promote_options="default" if name == "rounds" else "none")


def _notes(seeds: Sequence[dict[str, Any]]) -> list[str]:
    """What a reader must know, each once; what was noted version by version with the number of versions."""
    noted = _total(summary.get("noted", {}) for summary in seeds)
    versions = sum(summary["versions"] for summary in seeds)
    counted = [f"{note} (in {number} of {versions} versions)" for note, number in noted.items()]
    return [*dict.fromkeys(note for summary in seeds for note in summary["notes"]), *counted]


def _total(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    names = ("asyncfl", "numpy", "torch", "simpy", "pyarrow")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def _forget(kept: Path) -> None:
    shutil.rmtree(kept, ignore_errors=True)
