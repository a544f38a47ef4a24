"""A run that is still going: what there is of it, and how it is followed to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from asyncfl.base.errors import RunError
from asyncfl.base.files.own_folder import PARTIAL, is_worked_on
from asyncfl.federation.storage import COMPLETE, Run
from asyncfl.federation.under_way import snapshot_in
from asyncfl.scenario import Scenario


@dataclass(frozen=True)
class Standing:
    """How far a run has come."""

    run: Run | None
    """What there is of it; None: no version can be seen yet."""
    said: str
    """What is said of a run that is not whole; empty of one that is."""
    going: bool
    """Whether somebody is at work on it."""
    key: tuple[object, ...]
    """Differs whenever the run has come further."""


def standing(folder: Path) -> Standing:
    """How far the run in `folder` has come.

    While somebody works on it, that is what is under way, even where it is to replace an older run. Raises RunError
    where nothing of a run lies there, and as `Run.load` does.
    """
    going = is_worked_on(folder)
    # In this order: a run that ends meanwhile is there before its work is cleared away.
    begun = (folder / PARTIAL).is_dir()
    if not going and (folder / COMPLETE).exists():
        return Standing(Run.load(folder, own_code=False), "", False, ())
    if not begun:
        raise RunError(f"{folder} holds no run, and none is under way there")
    finished, snapshot = _finished(folder), snapshot_in(folder)
    if snapshot is not None and snapshot.seed in finished:
        snapshot = None
    parts = [
        *finished.values(),
        *([] if snapshot is None else [Run(snapshot.scenario, snapshot.tables, {"seeds": {}})]),
    ]
    if not parts:
        return Standing(None, "", going, ())
    scenario = parts[-1].scenario
    said = f"{len(finished)} of {len(scenario.seeds)} seeds are finished"
    if snapshot is not None:
        said += f", seed {snapshot.seed} is at version {snapshot.version} of {scenario.protocol.rounds}"
    key = (going, *finished, None if snapshot is None else snapshot.version)
    about = "This run is under way" if going else "This run was interrupted"
    return Standing(_together(scenario, parts), f"{about}: {said}.", going, key)


def _together(scenario: Scenario, parts: Sequence[Run]) -> Run:
    """One run of what there is of its seeds: tables that one of them lacks are those of the others."""
    names = dict.fromkeys(name for part in parts for name in part.tables)
    tables = {name: _joined([part.tables[name] for part in parts if name in part.tables]) for name in names}
    seeds = {seed: one for part in parts for seed, one in part.summary["seeds"].items()}
    notes = list(dict.fromkeys(note for one in seeds.values() for note in one["notes"]))
    return Run(scenario, tables, {"seeds": seeds, "notes": notes})


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    # What a seed gave away is not in its rounds before it is finished.
    return pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()


def _finished(folder: Path) -> dict[int, Run]:
    """Seed -> its run, of the seeds that wait for the others."""
    found = {}
    for path in sorted(folder.glob(f"{PARTIAL}/*/seed-*")):
        if path.suffix != ".unfinished":
            # One that is just being written, or put together with the others.
            with suppress(RunError, OSError):
                run = Run.load(path, own_code=False)
                found[int(next(iter(run.summary["seeds"])))] = run
    return dict(sorted(found.items()))


def follow(folder: Path, show: Callable[[Standing], None], pause: Callable[[], None]) -> Standing:
    """Have `show` told how far the run in `folder` has come, whenever it has come further, with `pause` in between.

    Returns where it stands when nobody is at work on it any more. Raises RunError as `standing` does.
    """
    key: tuple[object, ...] = ()
    while (now := standing(folder)).going:
        if now.run is not None and now.key != key:
            key = now.key
            show(now)
        pause()
    return now
