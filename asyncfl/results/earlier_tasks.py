"""The table of tasks of a run that an earlier version wrote without one, derived from its events.

No event records the fate `unfinished`: it is that of all tasks still open when the trace ends. The server may give a
task up (timed out, banned) while its client continues. The first event that settles a task decides its fate.
"""

from __future__ import annotations

import math
from collections import Counter

import pyarrow as pa

from asyncfl.protocol.event_query import end_of, select
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.task_record import SCHEMA, TaskRecord, TaskRows

_SETTLED = {Kind.AGGREGATED: Fate.AGGREGATED, Kind.FLAGGED: Fate.FLAGGED, Kind.REJECTED: Fate.REJECTED}


def tasks_of_events(events: pa.Table) -> pa.Table:
    """Return the table of tasks of a whole trace of one or more seeds; the columns about trained updates are null.

    `events`: in the order of the trace.
    """
    seeds = sorted(events["seed"].unique().to_pylist())
    return pa.concat_tables([SCHEMA.empty_table(), *(_of_seed(select(events, seed=one), one) for one in seeds)])


def _of_seed(events: pa.Table, seed: int) -> pa.Table:
    rows, tasks, turns = TaskRows(seed), dict[int, TaskRecord](), Counter[int]()
    for batch in events.to_batches(max_chunksize=50_000):
        for event in batch.to_pylist():
            if event["task"] < 0:
                continue
            kind, client = Kind(event["kind"]), event["client"]
            task = tasks.setdefault(event["task"], TaskRecord(event["task"], client, event["base_version"]))
            task.note(kind, event["time_s"], event["bytes"], event["attempt"], event["detail"])
            if kind is Kind.DISPATCHED:
                # Tasks that never began, because their client could not be reached, are left out.
                task.turn, task.base_version = turns[client], event["base_version"]
                turns[client] += 1
                rows.begin(task)
            elif kind is Kind.TRAINED and event["detail"]:
                task.epochs = int(event["detail"].split()[0])  # "3 of 5 epochs"
            elif (fate := _fate(kind, event["detail"])) is not None and math.isnan(task.settled_s):
                weight = 0.0 if math.isnan(event["weight"]) else event["weight"]
                task.settle(event["time_s"], fate, event["version"] + 1, event["staleness"], weight)
    return rows.table(end_of(events))


def _fate(kind: Kind, detail: str) -> Fate | None:
    """Return the fate that an event means; None: the event settles no task."""
    if kind is Kind.DISCARDED:
        return Fate(detail)
    if kind is Kind.LOST:
        return Fate(f"lost_{detail}")
    return Fate.DROPPED_OUT if kind is Kind.DROPPED_OUT else _SETTLED.get(kind)
