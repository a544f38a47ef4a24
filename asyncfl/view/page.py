"""A run as one HTML file that needs no network and no server.

The file holds what happened (packed, see `asyncfl.view.packing`) and a program that draws it; the program's parts lie
in `program/` beside this module. Nothing of a run stands in the file as HTML.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.component import kind_of
from asyncfl.errors import RunError
from asyncfl.files.whole import whole_file
from asyncfl.storage import Run
from asyncfl.trace.tasks import FATES, KINDS, Tasks, tasks_of
from asyncfl.view.comparison import comparison_shown
from asyncfl.view.happened import seed_shown
from asyncfl.view.packing import Packing
from asyncfl.view.tables import tables_shown

MOST_TASKS = 200_000
"""Tasks that a page holds; of a run with more it shows a window."""

SHOWN = ("rounds", "events", "clients", "ledger", "audit")
"""Tables of a run that a page is made of."""

MAGIC = "<!doctype html>\n<!-- a run of asyncfl -->\n"
"""How each page begins: files that begin otherwise are never replaced."""

PROGRAM = ("unpack", "model", "state", "canvas", "lanes", "curves", "details", "filters", "tables", "keys", "main")
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
    most_tasks: int = MOST_TASKS,
) -> str:
    """The HTML of one run, or of two over each other; the same bytes for the same runs.

    name: what the run is called, its folder for example. window: only these tasks; None: all, or where the run has more
    than `most_tasks`, the first of them. going: what is said of a run that is not over. reload_s: seconds after which
    the page loads itself again, 0: never. Raises RunError where a run's table of events has no rows, or none in the
    window.
    """
    packing = Packing()
    window = window or Window()
    runs = [(run, name), *([] if other is None else [other])]
    shown = [_run_shown(one, called, window, most_tasks // len(runs), packing) for one, called in runs]
    title = " and ".join(called for _, called in runs)
    header = {
        "fates": FATES,
        "kinds": KINDS,
        "runs": shown,
        "going": going,
        "reload_s": reload_s,
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
    with whole_file(path, lambda head: not head or head.startswith(MAGIC.encode())) as part:
        part.write_text(text, encoding="utf-8")


def _run_shown(run: Run, name: str, window: Window, most: int, packing: Packing) -> dict[str, Any]:
    tables = run.tables if window.seed is None else _of_seed(run.tables, window.seed)
    if not len(tables["events"]):
        raise RunError(f"{name}: events.parquet has no rows{_of(window.seed)}, so there is nothing to show")
    every = tasks_of(tables["events"])
    tasks = every.select(since_s=window.since_s, until_s=window.until_s)
    if len(every) and not len(tasks):
        last = float(every.dispatched_s.max())
        raise RunError(f"{name}: no task begins in the window; they begin from 0 s to {last:.6g} s")
    until_s = window.until_s
    if len(tasks) > most:
        until_s = float(np.partition(tasks.dispatched_s, most - 1)[most - 1])
        tasks = tasks.select(until_s=until_s)
    seeds = sorted(tables["events"]["seed"].unique().to_pylist())
    return {
        "name": name,
        "facts": _facts(run, tables),
        "notes": run.summary.get("notes", []),
        "window": _told(tasks, every),
        "clients": run.scenario.data.clients,
        "seeds": [
            seed_shown(seed, _of_seed(tables, seed), tasks.select(seed=seed), until_s, packing) for seed in seeds
        ],
        "tables": tables_shown(tables, run.summary, packing),
    }


def _of(seed: int | None) -> str:
    return "" if seed is None else f" of seed {seed}"


def _of_seed(tables: dict[str, pa.Table], seed: int) -> dict[str, pa.Table]:
    return {name: tables[name].filter(pc.field("seed") == seed) for name in SHOWN if name in tables}


def _told(tasks: Tasks, every: Tasks) -> str:
    """What is said of a window; empty where all tasks are shown."""
    if len(tasks) == len(every):
        return ""
    first, last = float(tasks.dispatched_s.min()), float(tasks.dispatched_s.max())
    return (
        f"{len(tasks):,} of {len(every):,} tasks are shown, those that begin from {first:.6g} s to {last:.6g} s; "
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
