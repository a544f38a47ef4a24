"""Tracks of clients in a Chrome trace: tasks with their phases, absences, and instants."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Generator, Iterator
from functools import cache

import numpy as np
import pyarrow as pa

from asyncfl.base.messages import Fate
from asyncfl.trace.events import CAUGHT, Kind
from asyncfl.trace.query import select
from asyncfl.trace.tasks import FATES, Tasks
from asyncfl.trace.tracks import Tracks, all_microseconds, instant_of, number, slice_of

CHUNK = 50_000
"""Tasks or events that are converted to Python objects at a time, to limit memory."""

MARKS = (
    Kind.RETRANSMITTED,
    Kind.LOST,
    *CAUGHT,
    Kind.DROPPED_OUT,
    Kind.ZEROED,
    Kind.REJECTED,
    Kind.FLAGGED,
    Kind.DISCARDED,
    Kind.BANNED,
    Kind.BUDGET_SPENT,
)
"""Kinds of events that become instants on a client's track."""


def client_events(tasks: Tasks, tracks: Tracks, first_arrow: int) -> Generator[str, None, dict[int, list[int]]]:
    """Yield the slices of the tasks of one seed, and the starts of arrows, as JSON texts.

    Args:
        tasks: Tasks of the seed that are drawn.
        tracks: Track numbers of the seed.
        first_arrow: Number of the first arrow.

    Returns version -> ids of the arrows that lead to its aggregation.
    """
    arrows: dict[int, list[int]] = defaultdict(list)
    arrow = first_arrow
    for start in range(0, len(tasks), CHUNK):
        part = tasks.only(np.arange(start, min(start + CHUNK, len(tasks))))
        end = all_microseconds(part.end_s)
        left = np.where(np.isnan(part.left_s), end, all_microseconds(part.left_s))
        used = (part.fate == FATES.index(Fate.AGGREGATED)) & (part.weight > 0)
        begins = [part.download_started_s, part.training_started_s, part.upload_started_s]
        ends = [part.downloaded_s, part.trained_s, part.uploaded_s]
        columns = [part.task, part.client, part.base_version, part.fate, part.staleness, part.weight, part.making]
        columns += [part.bytes_down, part.bytes_up, part.attempts_down, part.attempts_up]
        columns += [used, all_microseconds(part.dispatched_s), left]
        columns += [all_microseconds(times) for times in (*begins, *ends)]
        for row in zip(*(column.tolist() for column in columns), strict=True):
            task, client, base, fate, staleness, weight, made, down, up, sent_down, sent_up, is_used, began, gone = row[
                :14
            ]
            starts, stops = row[14:17], row[17:20]
            tid = tracks.client(client)
            about = f'{{"base_version":{base},"fate":"{FATES[fate]}"'
            if staleness >= 0:
                about += f',"staleness":{staleness},"version":{made},"weight":{number(weight)}'
            yield slice_of(f"task {task}", tracks, tid, began, gone, about + "}")
            traffic = ((down, sent_down), None, (up, sent_up))
            for name, at, to, sent in zip(("download", "train", "upload"), starts, stops, traffic, strict=True):
                if at < 0:
                    continue
                # An unfinished phase ends with the task or with the run.
                args = '"finished":false' if to < 0 else ""
                if sent is not None and sent[1]:
                    args += ("," if args else "") + f'"bytes":{sent[0]},"transmissions":{sent[1]}'
                yield slice_of(name, tracks, tid, at, gone if to < 0 else to, f"{{{args}}}" if args else "")
            if is_used:
                yield (
                    f'{{"name":"update","cat":"update","ph":"s","id":{arrow},"ts":{starts[2]},'
                    f'"pid":{tracks.pid},"tid":{tid}}}'
                )
                arrows[made].append(arrow)
                arrow += 1
    return arrows


def offline_slices(events: pa.Table, tracks: Tracks, shown: set[int] | None) -> Iterator[str]:
    """Yield a slice for each known absence of a client, up to its return or the end of the trace, as JSON texts.

    shown: clients that are drawn; None: all.
    """
    away: dict[int, int] = {}
    changes = select(events, kinds=[Kind.WENT_OFFLINE, Kind.CAME_ONLINE, Kind.DISPATCHED])
    if not len(select(changes, kinds=[Kind.WENT_OFFLINE])):
        return
    times = all_microseconds(changes["time_s"].to_numpy()).tolist()
    kinds = changes["kind"].cast(pa.string()).to_pylist()
    for at, kind, client in zip(times, kinds, changes["client"].to_pylist(), strict=True):
        if shown is not None and client not in shown:
            continue
        if kind == Kind.WENT_OFFLINE:
            away.setdefault(client, at)
        elif client in away:
            yield slice_of("offline", tracks, tracks.client(client), away.pop(client), at)
    end = int(all_microseconds(events["time_s"].to_numpy()).max())
    for client, at in sorted(away.items()):
        yield slice_of("offline", tracks, tracks.client(client), at, end)


def client_instants(events: pa.Table, tracks: Tracks, shown: set[int] | None) -> Iterator[str]:
    """Yield instants for events of clients and their updates that have no duration, as JSON texts.

    shown: clients that are drawn; None: all.
    """
    marks = select(events, kinds=MARKS)
    for start in range(0, len(marks), CHUNK):
        part = marks.slice(start, CHUNK)
        names = ("client", "task", "attempt", "staleness")
        columns = [part[name].to_pylist() for name in names]
        columns += [part[name].cast(pa.string()).to_pylist() for name in ("kind", "detail")]
        times = all_microseconds(part["time_s"].to_numpy()).tolist()
        for at, client, task, attempt, staleness, kind, detail in zip(times, *columns, strict=True):
            if shown is not None and client not in shown:
                continue
            # A discarded update is marked with the reason: late, stale, timed out, ...
            name = detail.replace("_", " ") if kind == Kind.DISCARDED else kind.replace("_", " ")
            args = [f'"task":{task}'] if task >= 0 else []
            if attempt > 0:
                counted = "transmission" if kind == Kind.RETRANSMITTED else "transmissions"
                args.append(f'"{counted}":{attempt}')
            args += [f'"staleness":{staleness}'] if staleness >= 0 else []
            args += [f'"detail":{_quoted(detail)}'] if detail and kind != Kind.DISCARDED else []
            yield instant_of(name, tracks, tracks.client(client), at, "{" + ",".join(args) + "}" if args else "")


@cache
def _quoted(text: str) -> str:
    return json.dumps(text)
