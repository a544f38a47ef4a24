"""A run as one HTML file that needs no network and no server.

The file holds the packed run (see `asyncfl.extras.view.packing`) and a program that draws it; the program's parts lie
in `program/` beside this module. Nothing of a run stands in the file as HTML.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.base.component import kind_of
from asyncfl.base.description import differing_fields
from asyncfl.base.errors import RunError
from asyncfl.base.files.atomic import atomic_file
from asyncfl.base.quantities import NONE
from asyncfl.extras.view.packing import Packing, pack_density, pack_seed, pack_tables
from asyncfl.protocol.tasks import FATES, KINDS, Tasks
from asyncfl.results.compare_traces import SeedComparison, compare
from asyncfl.results.storage import Run

MOST_TASKS = 200_000
"""Tasks that a page holds one by one. Of a run with more it shows a density, and the tasks of a window."""
WINDOW_TASKS = 50_000
"""Tasks of that window if the user gave none: the first. Few, so that the page opens at once."""

TABLES = ("rounds", "events", "tasks", "clients", "ledger", "audit")
"""Tables of a run that a page is made of."""

MAGIC = "<!doctype html>\n<!-- a run of asyncfl -->\n"
"""How each page begins: files that begin otherwise are never replaced."""

PROGRAM = ("unpack", "model", "state", "canvas", "lanes", "density", "curves", "details", "filters", "tables", "keys")
"""Parts of the page's program before `main`, in the order in which they are put together."""


@dataclass(frozen=True)
class Window:
    """Choice of tasks by the virtual second of their dispatch, ends included, and by seed. None: no limit."""

    since_s: float | None = None
    until_s: float | None = None
    seed: int | None = None


def page(
    run: Run,
    name: str,
    *,
    other: tuple[Run, str] | None = None,
    window: Window | None = None,
    going: str = "",
    reload_s: float = 0,
    command: str = "asyncfl view RUN",
    most_tasks: int = MOST_TASKS,
) -> str:
    """Return the HTML of one run, or of two drawn over each other; the same bytes for the same runs.

    name: of the run, `title_of` it for example. window: only these tasks; None: all, or where the run has more than
    `most_tasks`, a density of all and the first of them. going: sentence about an unfinished run. reload_s: seconds
    after which the page reloads itself, 0: never. command: what writes the page of another window, but for its options.
    Raises RunError where a run's table of events has no rows, or none in the window.
    """
    packing = Packing()
    runs = [(one, _utf8(called)) for one, called in ((run, name), *([] if other is None else [other]))]
    most = most_tasks // len(runs)
    found = [_found(one, called, window or Window(), most) for one, called in runs]
    # Over each other, runs have the same lanes, and both a density where one of them has too many tasks.
    clients = max(one.run.scenario.data.clients for one in found)
    dense = any(len(one.every) > most for one in found)
    header = {
        "fates": FATES,
        "kinds": KINDS,
        "runs": [_pack_run(one, clients if dense else None, packing) for one in found],
        "going": going,
        "reload_s": reload_s,
        "command": _utf8(command),
        "compared": None if other is None else _comparison(run, other[0]),
    }
    parts = files("asyncfl.extras.view") / "program"
    frame, style, *program = (
        (parts / file).read_text(encoding="utf-8")
        for file in ("page.html", "page.css", *(f"{part}.js" for part in (*PROGRAM, "main")))
    )
    title = " and ".join(called for _, called in runs)
    filled = frame.replace("{{title}}", escape(title)).replace("{{style}}", style)
    # The data last: what is put in is not looked at again.
    return MAGIC + filled.replace("{{program}}", "\n".join(program)).replace("{{data}}", packing.packed(header))


def title_of(run: Run, folder: Path) -> str:
    """Return what a run in `folder` is, in a few words: `buffered on mnist, label_flip (2b68948638792f8d)`."""
    return f"{run.title} ({os.path.basename(os.path.realpath(folder))})"


def _utf8(text: str) -> str:
    """Return a text as it can be shown: the name of a folder may be no UTF-8."""
    return os.fsencode(text).decode("utf-8", "replace")


def write(text: str, path: str | Path) -> None:
    """Write a page atomically. Raises OutputError, also where `path` is a file other than a page of a run."""
    with atomic_file(path, lambda head: not head or head.startswith(MAGIC.encode())) as part:
        part.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class _Found:
    """A run, its tables and tasks, and the tasks in the window. `asked`: whether the user gave a window."""

    run: Run
    name: str
    tables: dict[str, pa.Table]
    every: Tasks
    tasks: Tasks
    window: Window
    asked: bool


def _found(run: Run, name: str, window: Window, most: int) -> _Found:
    tables = run.tables if window.seed is None else _of_seed(run.tables, window.seed)
    if not len(tables["events"]):
        of = "" if window.seed is None else f" of seed {window.seed}"
        raise RunError(f"{name}: events.parquet has no rows{of}, so there is nothing to show")
    every = Tasks.of(tables["tasks"])
    tasks = every.select(since_s=window.since_s, until_s=window.until_s)
    if len(every) and not len(tasks):
        last = float(every.dispatched_s.max())
        raise RunError(f"{name}: no task begins in the window; they begin from 0 s to {last:.6g} s")
    asked = (window.since_s, window.until_s) != (None, None)
    if len(tasks) > most:
        kept = most if asked else min(most, WINDOW_TASKS)
        window = replace(window, until_s=float(np.sort(tasks.dispatched_s)[kept - 1]))
        tasks = tasks.select(until_s=window.until_s)
    return _Found(run, name, tables, every, tasks, window, asked)


def _pack_run(found: _Found, clients: int | None, packing: Packing) -> dict[str, Any]:
    """Pack a run. clients: lanes that a density has room for; None: there is none."""
    run, tables, tasks, window = found.run, found.tables, found.tasks, found.window
    seeds = sorted(tables["events"]["seed"].unique().to_pylist())
    packed = []
    for seed in seeds:
        of_seed, every = _of_seed(tables, seed), found.every.select(seed=seed)
        one = pack_seed(seed, of_seed, tasks.select(seed=seed), every, window.since_s, packing)
        if clients is not None:
            end_s = float(of_seed["events"]["time_s"].to_numpy().max(initial=0.0))
            one["density"] = pack_density(every, clients, end_s, len(seeds), packing)
            one["held"] = [window.since_s or 0.0, end_s if window.until_s is None else min(window.until_s, end_s)]
        packed.append(one)
    return {
        "name": found.name,
        "facts": _facts(run, tables),
        "notes": run.summary.get("notes", []),
        "window": _described(tasks, found.every, clients is not None),
        "asked": found.asked,
        "private": kind_of(run.scenario.privacy) != "none" or "audit" in run.tables,
        "clients": run.scenario.data.clients,
        "seeds": packed,
        "tables": pack_tables(tables, run.summary, packing),
    }


def _of_seed(tables: dict[str, pa.Table], seed: int) -> dict[str, pa.Table]:
    return {name: tables[name].filter(pc.field("seed") == seed) for name in TABLES if name in tables}


def _described(tasks: Tasks, every: Tasks, dense: bool) -> str:
    """Describe a window; empty where all tasks are shown."""
    if len(tasks) == len(every):
        return ""
    first, last = float(tasks.dispatched_s.min()), float(tasks.dispatched_s.max())
    window = f"those that begin from {first:.6g} s to {last:.6g} s"
    if dense:
        return (
            f"These are {len(every):,} tasks, shown as a density: how many are under way, by clients and time. "
            f"{len(tasks):,} of them, {window}, can be seen one by one. Curves and tables are of the whole run."
        )
    return (
        f"{len(tasks):,} of {len(every):,} tasks are shown, {window}; "
        "asyncfl view --since and --until show others. Curves and tables are of the whole run."
    )


def _facts(run: Run, tables: dict[str, pa.Table]) -> list[tuple[str, str]]:
    """Return the first facts that a reader needs, as pairs of a word and its value."""
    scenario, protocol = run.scenario, run.scenario.protocol
    provenance = run.summary.get("data", {}).get("provenance") or ", ".join(scenario.data.names)
    version = int(pc.max(tables["rounds"]["version"]).as_py() or 0)
    facts = {
        "data": str(provenance),
        "protocol": f"{kind_of(protocol)}, {version} of {protocol.rounds} versions",
        "clients": str(scenario.data.clients),
        "attack": "" if scenario.threats is None else kind_of(scenario.threats.attack),
        "privacy": kind_of(scenario.privacy),
        "ended because": "; ".join(dict.fromkeys(one["stopped"] for one in run.summary.get("seeds", {}).values())),
    }
    return [(word, value) for word, value in facts.items() if value]


def _comparison(one: Run, other: Run) -> dict[str, Any]:
    """Return the fields in which two runs differ, and for each seed the first difference and the sums."""
    found = compare(one.tables, other.tables)
    fields = differing_fields(one.description, other.description)
    only = (("first", found.only_one), ("second", found.only_other))
    return {
        "same": found.same,
        "fields": [
            [name, *("null" if value is None else _text(value) for value in pair)] for name, pair in fields.items()
        ],
        "seeds": [_compared_seed(seed) for seed in found.seeds],
        "only": [f"only the {which} run has seed {', '.join(map(str, seeds))}" for which, seeds in only if seeds],
    }


def _compared_seed(found: SeedComparison) -> dict[str, Any]:
    events, first = [], None
    if found.events is not None:
        columns, rows = found.events.rows("both", "first", "second")
        events = [["run", *columns], *(list(map(_text, row)) for row in rows)]
        at_s = [rows[0]["time_s"] for rows in (found.events.one, found.events.other) if rows]
        first = round(min(at_s) * 1e6)  # in microseconds, as all times of a page
    return {
        "seed": found.seed,
        "other_seed": found.other_seed,
        "first": first,
        "said": list(found.sentences("the first run", "the second run")),
        "events": events,
        "lines": [[line.what, *map(_text, (line.one, line.other, line.other - line.one))] for line in found.lines],
    }


def _text(value: object) -> str:
    """Return the text of a cell; empty for no value."""
    if isinstance(value, float):
        return f"{value:.7g}" if value == value else NONE
    return "" if value is None else str(value)
