"""The history of one task, from its dispatch to the aggregation or loss of its update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.base.errors import Fault, InputError
from asyncfl.protocol.event_query import select
from asyncfl.protocol.events import NO_EPOCH, SCORING_DOWN, Kind
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.task_record import SETTLING
from asyncfl.protocol.tasks import FATES, Tasks

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
    """History and fate (`asyncfl.protocol.messages.Fate`) of one task.

    `version` that the update was judged for, its `staleness` in versions and its `weight` in the aggregate are None
    where it was not judged. `durations_s`: seconds of the finished phases `download`, `training`, `upload` and
    `waiting` (for the server's decision), and of `total`: from the dispatch until both server and client have finished
    with the task, or to the end of the run.
    """

    seed: int
    task: int
    client: int
    base_version: int
    fate: str
    version: int | None
    staleness: int | None
    weight: float | None
    durations_s: dict[str, float]
    steps: tuple[HistoryStep, ...]

    @property
    def headline(self) -> str:
        """Fate of the task in one sentence."""
        begin = f"task {self.task} of client {self.client} (seed {self.seed}), sent version {self.base_version}: "
        if self.version is None:
            return begin + self.fate.replace("_", " ")
        age = f"{self.staleness} version{'' if self.staleness == 1 else 's'} stale"
        if self.fate != Fate.AGGREGATED:
            return f"{begin}{self.fate} when version {self.version} was made" + (f", {age}" if self.staleness else "")
        return f"{begin}aggregated into version {self.version} with weight {self.weight:.6g}, {age}"


def follow(events: pa.Table, tasks: pa.Table, task: int, seed: int | None = None) -> TaskHistory:
    """Return the history of `task` from the events and tasks of a run. `seed` may be None where there is only one.

    Raises InputError for a task or seed that is not in the trace.
    """
    seeds = sorted(events["seed"].unique().to_pylist())
    if seed is None and len(seeds) == 1:
        seed = int(seeds[0])
    if seed not in seeds:
        got = "none" if seed is None else seed
        raise InputError([Fault("seed", f"must be one of the run's ({', '.join(map(str, seeds))}), got {got}")])
    events = select(events, seed=seed)
    found = Tasks.of(tasks).select(seed=seed, task=task)
    if not len(found):
        last = pc.max(events["task"]).as_py()
        why = f"must be 0..{last}, got {task}" if last >= 0 else f"the trace has no tasks, got {task}"
        if 0 <= task <= last:
            why = f"task {task} never began: its client could not be reached"
        raise InputError([Fault("task", why)])
    row = {name: getattr(found, name)[0].item() for name in ("client", "base_version", "making", "staleness", "weight")}
    fate = FATES[int(found.fate[0])]
    own = select(events, task=task).to_pylist()
    judged = row["staleness"] >= 0 or fate == Fate.REJECTED
    return TaskHistory(
        seed=int(found.seed[0]),
        task=task,
        client=row["client"],
        base_version=row["base_version"],
        fate=fate,
        version=row["making"] if judged else None,
        staleness=row["staleness"] if row["staleness"] >= 0 else None,
        weight=row["weight"] if judged else None,
        durations_s=_durations(found),
        steps=tuple(_steps([*own, *_related_events(events, found, fate, own)])),
    )


def _durations(task: Tasks) -> dict[str, float]:
    """Return the seconds of each finished phase of a task, see `TaskHistory`. `task`: a single row."""
    ended = (task.settled_s, task.left_s, task.trained_s, task.downloaded_s)
    until = task.end_s if np.isnan(task.settled_s[0]) else np.nanmax(np.stack(ended), axis=0)
    columns = {name: getattr(task, f"{name}_s") for name in ("download", "training", "upload", "waiting")}
    columns["total"] = until - task.dispatched_s
    return {name: float(column[0]) for name, column in columns.items() if column[0] == column[0]}


def _related_events(events: pa.Table, task: Tasks, fate: str, own: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events that concern the followed task but do not hold its number.

    These are the scoring of its buffer, the publication, the ban of its client, or the end of the run. `task`: a single
    row; `own`: the events of the task itself.
    """
    if fate == Fate.UNFINISHED:
        return list(select(events, kinds=[Kind.STOPPED]).to_pylist())
    shown: list[dict[str, Any]] = []
    if not np.isnan(task.waiting_s[0]):
        # Requests of the update's own buffer. A buffer judged while the update waited in the queue made an earlier
        # version.
        asked = select(events, kinds=[Kind.SCORES_REQUESTED, Kind.SCORED], version=int(task.making[0]) - 1)
        shown += asked.to_pylist()
    if fate == Fate.AGGREGATED:
        settled = next(row["seq"] for row in own if row["kind"] in SETTLING)
        later = events.filter(pc.field("seq") > settled)
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
    kind, detail, client = Kind(row["kind"]), str(row["detail"]), f"client {row['client']}"
    times = f", in {row['attempt']} transmissions" if row["attempt"] > 1 else ""
    sent = f"{row['bytes']:,} bytes sent{times}" if row["bytes"] >= 0 else ""
    match kind:
        case Kind.DISPATCHED:
            return f"version {row['base_version']} to {client}"
        case Kind.DOWNLOAD_STARTED | Kind.UPLOAD_STARTED:
            return f"{row['bytes']:,} bytes"
        case Kind.DOWNLOADED | Kind.UPLOADED | Kind.WENT_OFFLINE:
            return sent
        case Kind.LOST:
            return f"on the way {detail}, {sent}"
        case Kind.RETRANSMITTED:
            return f"transmission {row['attempt']} on the way {detail}, {row['bytes']:,} bytes again"
        case Kind.OVERHEARD | Kind.OVERHEARD_IN_PART:
            to_score = "among the models that a client was sent to score"
            return to_score if detail == SCORING_DOWN else f"on the way {detail}"
        case Kind.SCORES_REQUESTED:
            return f"{client} is to score {detail}"
        case Kind.SCORED:
            return f"{client}: {detail}"
        case Kind.AGGREGATED | Kind.FLAGGED | Kind.REJECTED:
            weight = f"weight {row['weight']:.6g}" if kind is Kind.AGGREGATED else ""
            staleness = f"staleness {row['staleness']}" if row["staleness"] >= 0 else ""
            return ", ".join(filter(None, [weight, staleness, detail]))
        case Kind.DISCARDED:
            return detail.replace("_", " ")
        case Kind.PUBLISHED:
            return f"version {row['version']}"
        case Kind.BANNED:
            return client
        case Kind.DROPPED_OUT if detail in ("offline", NO_EPOCH):
            return "because it went offline" if detail == "offline" else detail
        case Kind.DROPPED_OUT:
            return ", ".join(filter(None, [f"on the way {detail}", sent])) if detail else ""
    return detail
