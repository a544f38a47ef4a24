"""A run as one HTML file that needs no network and no server.

The file holds what happened (packed, see `asyncfl.view.packing`) and a program that draws it; the program's parts lie
in `program/` beside this module. Nothing of a run stands in the file as HTML.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.base.component import kind_of
from asyncfl.base.errors import RunError
from asyncfl.base.files.atomic import atomic_file
from asyncfl.federation.storage import Run
from asyncfl.trace.tasks import FATES, KINDS, Tasks, tasks_of
from asyncfl.view.comparison import comparison_shown
from asyncfl.view.density import density_shown
from asyncfl.view.happened import seed_shown
from asyncfl.view.packing import Packing
from asyncfl.view.tables import tables_shown

MOST_TASKS = 200_000
"""Tasks that a page holds one by one. Of a run with more it shows a density, and the tasks of a window."""
WINDOW_TASKS = 50_000
"""Tasks of that window where nobody asks for one: the first. Few, so that the page opens at once."""

SHOWN = ("rounds", "events", "clients", "ledger", "audit")
"""Tables of a run that a page is made of."""

MAGIC = "<!doctype html>\n<!-- a run of asyncfl -->\n"
"""How each page begins: files that begin otherwise are never replaced."""

PROGRAM = (
    "unpack",
    "model",
    "state",
    "canvas",
    "lanes",
    "density",
    "curves",
    "details",
    "filters",
    "tables",
    "keys",
    "main",
)
"""Parts of the page's program, in the order in which they are put together."""


@dataclass(frozen=True)
class Window:
    """Which tasks of a run are shown, by the virtual second of their dispatch, and of which seeds."""

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
    """The HTML of one run, or of two over each other; the same bytes for the same runs.

    name: what the run is called, its folder for example. window: only these tasks; None: all, or where the run has more
    than `most_tasks`, a density of all and the first of them. going: what is said of a run that is not over. reload_s:
    seconds after which the page loads itself again, 0: never. command: what writes the page of another window, but for
    its options. Raises RunError where a run's table of events has no rows, or none in the window.
    """
    packing = Packing()
    runs = [(run, name), *([] if other is None else [other])]
    most = most_tasks // len(runs)
    found = [_found(one, called, window or Window(), most) for one, called in runs]
    # Over each other, runs have the same lanes, and both a density where one of them has too many tasks.
    clients = max(one.run.scenario.data.clients for one in found)
    dense = any(len(one.every) > most for one in found)
    shown = [_run_shown(one, clients if dense else None, packing) for one in found]
    title = " and ".join(called for _, called in runs)
    header = {
        "fates": FATES,
        "kinds": KINDS,
        "runs": shown,
        "going": going,
        "reload_s": reload_s,
        "command": command,
        "compared": None if other is None else comparison_shown(run, other[0]),
    }
    return html(title, packing.packed(header))


def html(title: str, data: str) -> str:
    """The file around packed data."""
    parts = files("asyncfl.view") / "program"
    frame = (parts / "page.html").read_text(encoding="utf-8")
    program = "\n".join((parts / f"{part}.js").read_text(encoding="utf-8") for part in PROGRAM)
    style = (parts / "page.css").read_text(encoding="utf-8")
    filled = frame.replace("{{title}}", escape(title)).replace("{{style}}", style)
    # The data last: what is put in is not looked at again.
    return MAGIC + filled.replace("{{program}}", program).replace("{{data}}", data)


def write(text: str, path: str | Path) -> None:
    """Writes a page, whole or not at all. Raises OutputError, and where a file lies that is no page of a run."""
    with atomic_file(path, lambda head: not head or head.startswith(MAGIC.encode())) as part:
        part.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class _Found:
    """A run, and the tasks of it that are shown."""

    run: Run
    name: str
    tables: dict[str, pa.Table]
    every: Tasks
    tasks: Tasks
    window: Window
    """What is shown, ends included."""
    asked: bool
    """Whether somebody asked for a window."""


def _found(run: Run, name: str, window: Window, most: int) -> _Found:
    tables = run.tables if window.seed is None else _of_seed(run.tables, window.seed)
    if not len(tables["events"]):
        raise RunError(f"{name}: events.parquet has no rows{_of(window.seed)}, so there is nothing to show")
    every = tasks_of(tables["events"])
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


def _run_shown(found: _Found, clients: int | None, packing: Packing) -> dict[str, Any]:
    """What of a run is shown. clients: lanes that a density has room for; None: there is none."""
    run, tables, tasks, window = found.run, found.tables, found.tasks, found.window
    seeds = sorted(tables["events"]["seed"].unique().to_pylist())
    shown = []
    for seed in seeds:
        of_seed, own, every = _of_seed(tables, seed), tasks.select(seed=seed), found.every.select(seed=seed)
        one = seed_shown(seed, of_seed, own, None if len(own) == len(every) else every, window.since_s, packing)
        if clients is not None:
            end_s = float(of_seed["events"]["time_s"].to_numpy().max(initial=0.0))
            one["density"] = density_shown(every, clients, end_s, len(seeds), packing)
            one["held"] = [window.since_s or 0.0, end_s if window.until_s is None else min(window.until_s, end_s)]
        shown.append(one)
    return {
        "name": found.name,
        "facts": _facts(run, tables),
        "notes": run.summary.get("notes", []),
        "window": _told(tasks, found.every, clients is not None),
        "asked": found.asked,
        "clients": run.scenario.data.clients,
        "seeds": shown,
        "tables": tables_shown(tables, run.summary, packing),
    }


def _of(seed: int | None) -> str:
    return "" if seed is None else f" of seed {seed}"


def _of_seed(tables: dict[str, pa.Table], seed: int) -> dict[str, pa.Table]:
    return {name: tables[name].filter(pc.field("seed") == seed) for name in SHOWN if name in tables}


def _told(tasks: Tasks, every: Tasks, dense: bool) -> str:
    """What is said of a window; empty where all tasks are shown."""
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
    """What a reader wants to know first, as pairs of a word and what there is to say."""
    scenario, protocol = run.scenario, run.scenario.protocol
    data = run.summary.get("data", {})
    rounds = tables["rounds"]
    facts = [
        ("data", str(data.get("provenance") or ", ".join(scenario.data.names))),
        (
            "protocol",
            f"{kind_of(protocol)}, {int(pc.max(rounds['version']).as_py() or 0)} of {protocol.rounds} versions",
        ),
        ("clients", f"{scenario.data.clients}"),
    ]
    if scenario.threats is not None:
        facts.append(("attack", kind_of(scenario.threats.attack)))
    facts.append(("privacy", kind_of(scenario.privacy)))
    stopped = dict.fromkeys(str(one["stopped"]) for one in run.summary.get("seeds", {}).values())
    return [*facts, *([("ended because", "; ".join(stopped))] if stopped else [])]
