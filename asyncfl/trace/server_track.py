"""The server's track in a Chrome trace: versions, scoring and aggregation, and counters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from asyncfl.trace.events import Kind
from asyncfl.trace.query import select
from asyncfl.trace.scoring_requests import ScoringRequest, scoring_requests_of
from asyncfl.trace.tasks import FATES, JUDGED, Tasks
from asyncfl.trace.tracks import Tracks, all_microseconds, counter_of, instant_of, microseconds, slice_of

MARKS = (Kind.SHORT_BUFFER, Kind.COHORT_REPEATED, Kind.SHUFFLED, Kind.STOPPED, Kind.TIMER_FIRED)
"""Kinds of events that become instants on the server's track."""


@dataclass
class BufferSpan:
    """Times of a buffer from its first update to the version made of it, virtual seconds."""

    version: int
    """Version made of the buffer."""
    filling_s: float
    """Publication of the version before."""
    decided_s: float
    """Time at which the updates were judged; without judged updates, publication of the version or end of the trace."""
    published_s: float
    """Publication of the version; without one, end of the trace."""
    updates: int
    """Number of judged updates: aggregated, flagged or rejected."""
    requests: list[ScoringRequest] = field(default_factory=list)


def buffer_spans(events: pa.Table, tasks: Tasks) -> list[BufferSpan]:
    """Return the times of the buffers of one seed, in order, with a last one that the end of the trace interrupts."""
    end_s = float(events["time_s"].to_numpy().max(initial=0.0))
    published = select(events, kinds=[Kind.PUBLISHED])["time_s"].to_numpy()
    judged = np.isin(tasks.fate, [FATES.index(fate) for fate in JUDGED])
    versions = len(published) + 1
    made = tasks.making[judged]
    updates = np.bincount(made, minlength=versions)
    decided = np.full(versions, -np.inf)
    np.maximum.at(decided, made, tasks.settled_s[judged])
    started = select(events, kinds=[Kind.AGGREGATION_STARTED])
    if len(started):
        decided[started["version"].to_numpy() + 1] = started["time_s"].to_numpy()
    result = []
    for version in range(1, versions):
        over = version < len(published)
        published_s = float(published[version]) if over else end_s
        decided_s = published_s if decided[version] == -np.inf else float(decided[version])
        if over or updates[version] or end_s > published[version - 1]:
            begun_s = float(published[version - 1])
            result.append(BufferSpan(version, begun_s, decided_s, published_s, int(updates[version])))
    by_version = {batch.version: batch for batch in result}
    for request in scoring_requests_of(events):
        if request.making in by_version:
            by_version[request.making].requests.append(request)
    return result


def server_events(
    events: pa.Table,
    spans: Sequence[BufferSpan],
    tracks: Tracks,
    shown: set[int] | None,
    arrows: Mapping[int, Sequence[int]],
) -> Iterator[str]:
    """Yield slices of versions with scoring and aggregation inside, scoring requests of clients, and instants.

    All are JSON texts. `spans`: buffers of the seed. `shown`: clients that are drawn; None: all.
    `arrows`: version -> ids of the arrows that end at its aggregation. An arrow binds to the slice read last, so the
    arrows follow the slice of the aggregation.
    """
    for batch in spans:
        filling, decided, published = (
            microseconds(time_s) for time_s in (batch.filling_s, batch.decided_s, batch.published_s)
        )
        args = f'{{"updates":{batch.updates}}}'
        yield slice_of(f"version {batch.version - 1}", tracks, tracks.server, filling, published)
        for request in batch.requests:
            description = json.dumps(request.answer or f"{request.asked}, not finished")
            detail = f'{{"client":{request.client},"detail":{description}}}'
            began, ended = microseconds(request.asked_s), microseconds(request.ended_s)
            yield slice_of("score", tracks, tracks.server, began, ended, detail)
            if shown is None or request.client in shown:
                asked = f'{{"for_version":{batch.version},"detail":{description}}}'
                yield slice_of("score", tracks, tracks.scoring(request.client), began, ended, asked)
        if batch.updates or batch.decided_s < batch.published_s:
            yield slice_of(f"aggregate into version {batch.version}", tracks, tracks.server, decided, published, args)
            for arrow in arrows.get(batch.version, ()):
                yield (
                    f'{{"name":"update","cat":"update","ph":"f","bp":"e","id":{arrow},'
                    f'"ts":{decided},"pid":{tracks.pid},"tid":{tracks.server}}}'
                )
    for row in select(events, kinds=MARKS).to_pylist():
        # Timers of single tasks show on the clients' tracks, as fates of the tasks.
        if row["kind"] != Kind.TIMER_FIRED or row["detail"].partition(":")[0] in ("deadline", "time_limit"):
            args = f'{{"detail":{json.dumps(row["detail"])}}}'
            name = row["kind"].replace("_", " ")
            yield instant_of(name, tracks, tracks.server, microseconds(row["time_s"]), args)


def counters(events: pa.Table, tasks: Tasks, tracks: Tracks) -> Iterator[str]:
    """Yield the JSON events of two counters over time: newest version, and arrived updates that are not settled."""
    published = select(events, kinds=[Kind.PUBLISHED])
    times = all_microseconds(published["time_s"].to_numpy())
    yield from counter_of("version", "number", times, published["version"].to_numpy(), tracks)
    held = tasks.only(tasks.held)
    gone = np.where(np.isnan(held.settled_s), held.end_s, held.settled_s)
    at = np.concatenate([all_microseconds(held.uploaded_s), all_microseconds(gone)])
    change = np.repeat([1, -1], len(held))
    order = np.argsort(at, kind="stable")
    fill = np.concatenate([[0], np.cumsum(change[order])])
    yield from counter_of("buffer fill", "updates", np.concatenate([[0], at[order]]), fill, tracks)
