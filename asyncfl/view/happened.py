"""What a page shows of one seed: its tasks, what else happened, and the curves below them.

Times are whole microseconds. Those of a task are told as durations, one phase after another, -1 where it did not come
to that: they are small numbers, which pack well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.trace.events import Kind
from asyncfl.trace.scoring_requests import scoring_requests_of
from asyncfl.trace.tasks import KINDS, Floats, Ints, Tasks, codes, microseconds
from asyncfl.view.density import fill_shown
from asyncfl.view.packing import Packing

TOLD_BY_TASKS = (
    Kind.DISPATCHED,
    Kind.DOWNLOAD_STARTED,
    Kind.DOWNLOADED,
    Kind.TRAINING_STARTED,
    Kind.TRAINED,
    Kind.UPLOAD_STARTED,
    Kind.UPLOADED,
)
"""Kinds of events that the columns of tasks tell already."""

LASTING = (Kind.BANNED, Kind.WENT_OFFLINE, Kind.CAME_ONLINE)
"""Kinds of events after which a client is another, whatever window is looked at."""

FILLED = 2000
"""Spans of the run, and again of a window, by which the fill of the buffer is told."""

PHASES = (
    "dispatched_s",
    "download_started_s",
    "downloaded_s",
    "training_started_s",
    "trained_s",
    "upload_started_s",
    "uploaded_s",
)
"""Columns of the times of a task, in order."""

PLAIN = (
    *("client", "task", "base_version", "fate", "making", "staleness", "weight", "held", "overheard"),
    *("bytes_down", "bytes_up", "attempts_down", "attempts_up"),
)
"""Columns of tasks that are told as they are."""

CURVES = (
    "test_accuracy",
    "test_r2",
    "staleness_mean",
    "staleness_max",
    "bytes_up",
    "bytes_down",
    "epsilon_claimed_max",
    "epsilon_exact_max",
    "epsilon_exact_overheard_max",
)
"""Columns of the table of rounds that are drawn, as far as the run has them."""

Described = dict[str, Any]


def tasks_shown(tasks: Tasks, packing: Packing) -> Described:
    """The columns of `tasks`, of one seed, by client and time."""
    tasks = tasks.only(np.lexsort((tasks.task, tasks.dispatched_s, tasks.client)))
    dispatched = microseconds(tasks.dispatched_s)
    columns: dict[str, Ints | Floats] = {name: getattr(tasks, name) for name in PLAIN}
    columns["dispatched"] = dispatched
    last = dispatched
    for name in PHASES[1:]:
        at = microseconds(getattr(tasks, name))
        columns[name.removesuffix("_s")] = np.where(at < 0, -1, at - last)
        last = np.where(at < 0, last, at)
    for name in ("left", "settled"):
        at = microseconds(getattr(tasks, f"{name}_s"))
        columns[name] = np.where(at < 0, -1, at - dispatched)
    return {name: packing.numbers(column) for name, column in columns.items()}


def events_shown(events: pa.Table, packing: Packing) -> Described:
    """The events of one seed that its tasks do not tell."""
    kinds = codes(events["kind"], KINDS)
    told = np.isin(kinds, [KINDS.index(kind) for kind in TOLD_BY_TASKS])
    # An aggregation is told by the task's fate, timers by what they end, unless they say more.
    silent = np.isin(kinds, [KINDS.index(Kind.AGGREGATED), KINDS.index(Kind.PUBLISHED)])
    detail = events["detail"].cast(pa.string())
    told |= silent & pc.equal(detail, "").to_numpy()
    rows = np.flatnonzero(~told)
    events, kinds = events.take(pa.array(rows)), kinds[rows]
    shown: Described = {"time": packing.numbers(microseconds(events["time_s"].to_numpy()))}
    shown["kind"] = packing.numbers(kinds)
    for name in ("task", "client", "version", "staleness", "bytes", "attempt", "weight"):
        shown[name] = packing.numbers(events[name].to_numpy())
    return shown | {"detail": packing.texts(events["detail"].cast(pa.string()).to_pylist())}


def requests_shown(events: pa.Table, packing: Packing) -> Described:
    """Who was asked to score models, and when."""
    found = scoring_requests_of(events)
    times = (np.array([getattr(one, name) for one in found], np.float64) for name in ("asked_s", "ended_s"))
    began, ended = map(microseconds, times)
    return {
        "client": packing.numbers(np.array([one.client for one in found], np.int64)),
        "making": packing.numbers(np.array([one.making for one in found], np.int64)),
        "began": packing.numbers(began),
        "ended": packing.numbers(ended),
        "said": packing.texts([one.answer or f"{one.asked}, not finished" for one in found]),
    }


def curves_shown(rounds: pa.Table, audit: pa.Table | None, packing: Packing) -> Described:
    """Version by version, what the curves show, and what an audit measured so far."""
    shown = {
        "version": packing.numbers(rounds["version"].to_numpy()),
        "time": packing.numbers(microseconds(rounds["time_s"].to_numpy())),
    }
    shown |= {name: packing.numbers(rounds[name].to_numpy()) for name in CURVES if name in rounds.column_names}
    if audit is not None and len(audit):
        times, epsilon = measured(audit)
        shown |= {"measured_time": packing.numbers(microseconds(times)), "measured": packing.numbers(epsilon)}
    return shown


def measured(audit: pa.Table) -> tuple[Floats, Floats]:
    """When what the server's view shows of the audited client it knows most of rose, in virtual s, and to what."""
    rows = select_counting(audit)
    order = np.argsort(rows["time_s"].to_numpy(), kind="stable")
    times = rows["time_s"].to_numpy()[order]
    most = np.maximum.accumulate(rows["epsilon"].to_numpy()[order])
    rises = np.flatnonzero(np.diff(most, prepend=0.0) > 0)
    return times[rises], most[rises]


def select_counting(audit: pa.Table) -> pa.Table:
    """Rows of uploads, as the server sees them, of twins that are neighbours in the sense of the ledger."""
    chosen = (pc.field("holder") == "client") & (pc.field("adversary") == "server")
    if "counts" in audit.column_names:
        chosen = chosen & pc.field("counts")
    return audit.filter(chosen)


def events_with(events: pa.Table, tasks: Tasks, since_s: float | None) -> pa.Table:
    """Of one seed: the events of `tasks`, those of nobody's task while they are under way, and what was so before.

    since_s: where what is shown begins; None: at 0.
    """
    time_s, task = events["time_s"].to_numpy(), events["task"].to_numpy()
    ends = np.concatenate([tasks.left_s, tasks.settled_s])
    last = tasks.end_s.max(initial=0.0) if np.isnan(tasks.left_s).any() else np.nanmax(ends, initial=0.0)
    lasting = np.isin(codes(events["kind"], KINDS), [KINDS.index(kind) for kind in LASTING])
    seen = (time_s >= (since_s or 0.0)) | lasting
    kept = np.isin(task, tasks.task) | (((task < 0) | lasting) & seen & (time_s <= last))
    return events.take(pa.array(np.flatnonzero(kept)))


def seed_shown(
    seed: int, tables: dict[str, pa.Table], tasks: Tasks, every: Tasks | None, since_s: float | None, packing: Packing
) -> Described:
    """All of one seed: `tables` of it alone, `tasks` those to show; `every`: all of which they are a window that begins
    at `since_s`, None where they are all."""
    events = tables["events"]
    end_s = float(events["time_s"].to_numpy().max(initial=0.0))
    rounds = curves_shown(tables["rounds"], tables.get("audit"), packing)
    if every is not None:
        within = np.linspace(since_s or 0.0, min(end_s, tasks.dispatched_s.max(initial=0.0)), FILLED)
        rounds |= fill_shown(every, np.union1d(np.linspace(0.0, end_s, FILLED), within), packing)
    shown = {
        "seed": seed,
        "end": int(microseconds(np.array([end_s]))[0]),
        "tasks": tasks_shown(tasks, packing),
        "events": events_shown(events if every is None else events_with(events, tasks, since_s), packing),
        "requests": requests_shown(events, packing),
        "rounds": rounds,
    }
    if "clients" in tables:
        clients = tables["clients"]
        shown["attackers"] = clients.filter(pc.field("attacker"))["client"].to_pylist()
        shown["samples"] = packing.numbers(clients["samples"].to_numpy()) if "samples" in clients.column_names else None
    return shown
