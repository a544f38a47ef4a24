"""The history of one task, from its dispatch to the aggregation or loss of its update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.base.errors import Fault, InputError
from asyncfl.base.messages import Fate
from asyncfl.trace.events import NO_EPOCH, SCORING_DOWN, Kind
from asyncfl.trace.query import select
from asyncfl.trace.tasks import FATES, SETTLING, Tasks, tasks_of

BEGINNING = {
    Kind.DOWNLOADED: Kind.DOWNLOAD_STARTED,
    Kind.TRAINED: Kind.TRAINING_STARTED,
    Kind.UPLOADED: Kind.UPLOAD_STARTED,
    Kind.SCORED: Kind.SCORES_REQUESTED,
    Kind.AGGREGATED: Kind.UPLOADED,
    Kind.FLAGGED: Kind.UPLOADED,
    Kind.REJECTED: Kind.UPLOADED,
    Kind.DISCARDED: Kind.UPLOADED,
}
"""Kind of event that ends a phase -> kind of event that starts it."""

STARTS = (Kind.DOWNLOAD_STARTED, Kind.TRAINING_STARTED, Kind.UPLOAD_STARTED)
"""Kinds of events that start a phase on the client."""


@dataclass(frozen=True)
class HistoryStep:
    """One event in the history of a task."""

    time_s: float
    event: str
    """Kind of the event, see `Kind`."""
    took_s: float | None
    """Seconds of the phase that the event ends; None: it ends none."""
    what: str
    """Description of the event."""


@dataclass(frozen=True)
class TaskHistory:
    """History and fate of one task."""

    seed: int
    task: int
    client: int
    base_version: int
    fate: str
    """Fate of the task, see `asyncfl.base.messages.Fate`."""
    version: int | None
    """Version that the update was judged for; None: it was not judged."""
    staleness: int | None
    """Staleness of the update in versions; None: it was not judged."""
    weight: float | None
    """Weight of the update in the aggregate; None: it was not judged."""
    durations_s: dict[str, float]
    """Seconds of the finished phases `download`, `training`, `upload` and `waiting` (for the server's decision), and of
    `total`: from the dispatch until both server and client have finished with the task, or to the end of the run."""
    steps: tuple[HistoryStep, ...]

    @property
    def headline(self) -> str:
        """Fate of the task in one sentence."""
        begin = f"task {self.task} of client {self.client} (seed {self.seed}), sent version {self.base_version}: "
        if self.version is None:
            return begin + _readable(self.fate)
        age = f"{self.staleness} version{'' if self.staleness == 1 else 's'} stale"
        if self.fate != Fate.AGGREGATED:
            return f"{begin}{self.fate} when version {self.version} was made" + (f", {age}" if self.staleness else "")
        return f"{begin}aggregated into version {self.version} with weight {self.weight:.6g}, {age}"


def follow(events: pa.Table, task: int, seed: int | None = None) -> TaskHistory:
    """Return the history of `task` from a whole trace. `seed` may be None where the trace has only one seed.

    Raises InputError for a task or seed that is not in the trace.
    """
    events = events.filter(pc.field("seed") == _seed(events, seed))
    followed = tasks_of(events).select(task=task)
    if not len(followed):
        raise InputError([_no_such_task(events, task)])
    fate = FATES[int(followed.fate[0])]
    own = select(events, task=task).to_pylist()
    judged = followed.staleness[0] >= 0 or fate == Fate.REJECTED
    return TaskHistory(
        seed=int(followed.seed[0]),
        task=task,
        client=int(followed.client[0]),
        base_version=int(followed.base_version[0]),
        fate=fate,
        version=int(followed.making[0]) if judged else None,
        staleness=int(followed.staleness[0]) if followed.staleness[0] >= 0 else None,
        weight=float(followed.weight[0]) if judged else None,
        durations_s=_durations(followed),
        steps=tuple(_steps([*own, *_related_events(events, followed, own)])),
    )


def _seed(events: pa.Table, seed: int | None) -> int:
    """Return `seed`, or the only seed of the trace if it is None. Raises InputError if it is unknown or ambiguous."""
    seeds = sorted(events["seed"].unique().to_pylist())
    if seed is None and len(seeds) == 1:
        return int(seeds[0])
    if seed is None or seed not in seeds:
        got = "none" if seed is None else seed
        raise InputError([Fault("seed", f"must be one of the run's ({', '.join(map(str, seeds))}), got {got}")])
    return seed


def _no_such_task(events: pa.Table, task: int) -> Fault:
    """Return the fault of the number of a task that the trace does not contain."""
    last = pc.max(events["task"]).as_py()
    if last < 0:
        return Fault("task", f"the trace has no tasks, got {task}")
    if 0 <= task <= last:
        return Fault("task", f"task {task} never began: its client could not be reached")
    return Fault("task", f"must be 0..{last}, got {task}")


def _durations(task: Tasks) -> dict[str, float]:
    """Return the seconds of each finished phase of a task, see `TaskHistory.durations_s`. `task`: a single row."""
    ended = (task.settled_s, task.left_s, task.trained_s, task.downloaded_s)
    until = task.end_s if np.isnan(task.settled_s[0]) else np.nanmax(np.stack(ended), axis=0)
    columns = {
        "download": task.download_s,
        "training": task.training_s,
        "upload": task.upload_s,
        "waiting": task.waiting_s,
        "total": until - task.dispatched_s,
    }
    return {name: float(column[0]) for name, column in columns.items() if column[0] == column[0]}


def _related_events(events: pa.Table, task: Tasks, own: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events that concern the followed task but do not hold its number.

    These are the scoring of its buffer, the publication, the ban of its client, or the end of the run.

    Args:
        events: Trace of the task's seed.
        task: The followed task, a single row.
        own: Events of the task itself, as rows.
    """
    fate = FATES[int(task.fate[0])]
    if fate == Fate.UNFINISHED:
        return list(select(events, kinds=[Kind.STOPPED]).to_pylist())
    settled = next(row["seq"] for row in own if row["kind"] in SETTLING)
    later = events.filter(pc.field("seq") > settled)
    shown: list[dict[str, Any]] = []
    if task.waiting_s[0] == task.waiting_s[0]:
        # Requests of the update's own buffer. A buffer judged while the update waited in the queue made an earlier
        # version.
        asked = select(events, kinds=[Kind.SCORES_REQUESTED, Kind.SCORED], version=int(task.making[0]) - 1)
        shown += asked.to_pylist()
    if fate == Fate.AGGREGATED:
        shown += select(later, kinds=[Kind.PUBLISHED]).slice(0, 1).to_pylist()
    if fate in (Fate.FLAGGED, Fate.REJECTED, Fate.BANNED):
        # A ban follows a verdict at the same time, and a purge of the queue follows a ban at the same time.
        near = select(events, kinds=[Kind.BANNED], clients=[int(task.client[0])])
        shown += [row for row in near.to_pylist() if row["time_s"] == task.settled_s[0]]
    return shown


def _steps(rows: list[dict[str, Any]]) -> list[HistoryStep]:
    """Return the events `rows` in order, each with the duration of the phase that it ends."""
    began: dict[str, float] = {}
    phase: str | None = None
    steps = []
    for row in sorted(rows, key=lambda row: row["seq"]):
        kind, time_s = row["kind"], row["time_s"]
        # These events end any phase of the client.
        broken = kind in (Kind.LOST, Kind.DROPPED_OUT, Kind.WENT_OFFLINE)
        beginning = phase if broken else BEGINNING.get(kind)
        took_s = time_s - began[beginning] if beginning in began else None
        steps.append(HistoryStep(time_s, kind, took_s, _describe(row)))
        began[kind] = time_s
        phase = kind if kind in STARTS else None if broken else phase
    return steps


def _describe(row: dict[str, Any]) -> str:
    """Return the description of an event in the history of a task. `row`: the event as column -> value."""
    kind, detail = Kind(row["kind"]), row["detail"]
    times = f", in {row['attempt']} transmissions" if row["attempt"] > 1 else ""
    match kind:
        case Kind.DISPATCHED:
            return f"version {row['base_version']} to client {row['client']}"
        case Kind.DOWNLOAD_STARTED | Kind.UPLOAD_STARTED:
            return f"{row['bytes']:,} bytes"
        case Kind.DOWNLOADED | Kind.UPLOADED:
            return f"{row['bytes']:,} bytes sent{times}"
        case Kind.LOST:
            return f"on the way {detail}, {row['bytes']:,} bytes sent{times}"
        case Kind.RETRANSMITTED:
            return f"transmission {row['attempt']} on the way {detail}, {row['bytes']:,} bytes again"
        case Kind.OVERHEARD | Kind.OVERHEARD_IN_PART:
            return (
                "among the models that a client was sent to score" if detail == SCORING_DOWN else f"on the way {detail}"
            )
        case Kind.SCORES_REQUESTED:
            return f"client {row['client']} is to score {detail}"
        case Kind.SCORED:
            return f"client {row['client']}: {detail}"
        case Kind.AGGREGATED | Kind.FLAGGED | Kind.REJECTED:
            parts = [f"weight {row['weight']:.6g}"] if kind is Kind.AGGREGATED else []
            parts += [f"staleness {row['staleness']}"] if row["staleness"] >= 0 else []
            return ", ".join([*parts, *([detail] if detail else [])])
        case Kind.ZEROED:
            return str(detail)
        case Kind.DISCARDED:
            return _readable(detail)
        case Kind.PUBLISHED:
            return f"version {row['version']}"
        case Kind.BANNED:
            return f"client {row['client']}"
        case Kind.WENT_OFFLINE:
            return f"{row['bytes']:,} bytes sent{times}" if row["bytes"] >= 0 else ""
        case Kind.DROPPED_OUT:
            sent = f", {row['bytes']:,} bytes sent{times}" if row["bytes"] >= 0 else ""
            if detail in ("offline", NO_EPOCH):
                return "because it went offline" if detail == "offline" else str(detail)
            return f"on the way {detail}{sent}" if detail else ""
        case _:
            return str(detail)


def _readable(fate: str) -> str:
    return fate.replace("_", " ")
