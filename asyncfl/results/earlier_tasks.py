"""The table of tasks of a run, derived from its events where an earlier version wrote none.

No event records the fate `unfinished`: it is that of all tasks still open when the trace ends. The server may give a
task up (timed out, banned) while its client continues. The first event that settles a task decides its fate.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.base.errors import RunError
from asyncfl.base.files.own_folder import FolderMark
from asyncfl.protocol.event_query import end_of, select
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.task_record import SCHEMA, SETTLING, TaskRecord, TaskRows
from asyncfl.results.run_files import read_table

COLUMNS = ("time_s", "kind", "task", "client", "version", "base_version", "staleness", "bytes", "attempt", "weight")
"""Columns of events that tell of tasks, beside `detail`."""


def tasks_in(folder: Path, events: pa.Table) -> pa.Table:
    """Return the table of tasks of a run in `folder`, or the one that follows from its `events`.

    Raises RunError, and FileNotFoundError where the run had a table of tasks that is gone.
    """
    mark = FolderMark.read(folder)
    if (folder / "tasks.parquet").exists() or (mark is not None and "tasks.parquet" in mark.files):
        return read_table(folder, "tasks")
    try:
        return tasks_of_events(events)
    except (ValueError, LookupError) as error:
        raise RunError(f"{folder / 'events.parquet'}: no tasks follow from its events: {error}") from None


def tasks_of_events(events: pa.Table) -> pa.Table:
    """Return the table of tasks of a whole trace of one or more seeds; the columns about trained updates are null.

    `events`: in the order of the trace.
    """
    seeds = sorted(events["seed"].unique().to_pylist())
    return pa.concat_tables([SCHEMA.empty_table(), *(_of_seed(select(events, seed=one), one) for one in seeds)])


def _of_seed(events: pa.Table, seed: int) -> pa.Table:
    rows, tasks, turns = TaskRows(seed), dict[int, TaskRecord](), Counter[int]()
    kinds = {kind.value: kind for kind in Kind}
    for batch in events.filter(pc.field("task") >= 0).to_batches(max_chunksize=50_000):
        columns = [batch[name].to_pylist() for name in (*COLUMNS, "detail")]
        for time_s, name, number, client, version, base, staleness, size, attempt, weight, detail in zip(
            *columns, strict=True
        ):
            kind, task = kinds[name], tasks.get(number)
            if task is None:
                task = tasks[number] = TaskRecord(number, client, base)
            task.note(kind, time_s, size, attempt, detail)
            if kind is Kind.DISPATCHED:
                # Tasks that never began, because their client could not be reached, are left out.
                task.turn, task.base_version = turns[client], base
                turns[client] += 1
                rows.begin(task)
            elif kind in SETTLING and math.isnan(task.settled_s):
                weight = 0.0 if math.isnan(weight) else weight
                task.settle(time_s, _fate(kind, detail), version + 1, staleness, weight)
    return rows.table(end_of(events))


def _fate(kind: Kind, detail: str) -> Fate:
    """Return the fate that a settling event means."""
    if kind is Kind.DISCARDED:
        return Fate(detail)
    return Fate(f"lost_{detail}") if kind is Kind.LOST else Fate(kind.value)
