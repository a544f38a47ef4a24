"""State of a run that may be under way: the tables so far, and how far it has come."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from asyncfl.base.errors import RunError
from asyncfl.base.files.own_folder import PARTIAL, is_worked_on
from asyncfl.results.snapshots import snapshot_in
from asyncfl.results.storage import COMPLETE, Run
from asyncfl.scenario import Scenario


class RunState(NamedTuple):
    """Progress of a run. `run` is None before its first version; `description` is empty for a complete run.

    `going`: whether a process works on it.
    """

    run: Run | None
    description: str = ""
    going: bool = False


def run_state(folder: Path) -> RunState:
    """Return how far the run in `folder` has come.

    While a process works on it, that is what is under way, even where it is to replace an older run. Raises RunError
    where nothing of a run lies there, and as `Run.load` does.
    """
    going = is_worked_on(folder)
    # In this order: a run that ends meanwhile is there before its work is cleared away.
    begun = (folder / PARTIAL).is_dir()
    if not going and (folder / COMPLETE).exists():
        return RunState(Run.load(folder, own_code=False))
    if not begun:
        raise RunError(f"{folder} holds no run, and none is under way there")
    finished, snapshot = _finished(folder), snapshot_in(folder)
    parts = list(finished.values())
    if snapshot is not None and snapshot.seed not in finished:
        parts.append(Run(snapshot.scenario, snapshot.tables, {"seeds": {}}))
    else:
        snapshot = None
    if not parts:
        return RunState(None, going=going)
    scenario = parts[-1].scenario
    progress = f"{len(finished)} of {len(scenario.seeds)} seeds are finished"
    if snapshot is not None:
        progress += f", seed {snapshot.seed} is at version {snapshot.version} of {scenario.protocol.rounds}"
    description = f"This run {'is under way' if going else 'was interrupted'}: {progress}."
    return RunState(_joined(scenario, parts), description, going)


def _joined(scenario: Scenario, parts: Sequence[Run]) -> Run:
    """Join the seeds of a run. A table that some seeds lack is that of the others."""
    tables = {}
    for name in dict.fromkeys(name for part in parts for name in part.tables):
        # The epsilons of a seed are not in its rounds before it is finished.
        of_seeds = [part.tables[name] for part in parts if name in part.tables]
        tables[name] = pa.concat_tables(of_seeds, promote_options="default").unify_dictionaries().combine_chunks()
    seeds = {seed: one for part in parts for seed, one in part.summary["seeds"].items()}
    notes = list(dict.fromkeys(note for one in seeds.values() for note in one["notes"]))
    return Run(scenario, tables, {"seeds": seeds, "notes": notes})


def _finished(folder: Path) -> dict[int, Run]:
    """Return seed -> its run, of the finished seeds that wait for the others."""
    found = {}
    for path in sorted(folder.glob(f"{PARTIAL}/*/seed-*")):
        if path.suffix != ".unfinished":
            # It may be just being written, or put together with the others.
            with suppress(RunError, OSError):
                run = Run.load(path, own_code=False)
                found[int(next(iter(run.summary["seeds"])))] = run
    return dict(sorted(found.items()))
