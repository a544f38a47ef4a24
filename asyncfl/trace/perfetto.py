"""A trace as Chrome Trace JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

One process per seed. Its first track is the server's: a slice per version, and in it the scoring and the aggregation
that made the next. Then one track per client, a slice per task with download, train and upload inside, and the times at
which it was known to be offline; below it, for clients that were asked for scores, a track of these requests, because a
client may train meanwhile. Instants mark what has no duration, counters the version, the updates that the server holds
and the epsilon spent, arrows lead from an upload to the aggregation that used it. Times are whole microseconds.

Format: "Trace Event Format" of the Chromium project; slices of a track nest, arrows bind to the slice around them.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.files.atomic import atomic_file
from asyncfl.trace.client_tracks import client_events, client_instants, offline_slices
from asyncfl.trace.epsilon_curves import EpsilonCurve
from asyncfl.trace.server_track import BufferSpan, buffer_spans, counters, server_events
from asyncfl.trace.tasks import tasks_of
from asyncfl.trace.tracks import Tracks, all_microseconds, counter_of, metadata

LINES_PER_WRITE = 4096


def write_perfetto(
    events: pa.Table,
    path: str | Path,
    *,
    title: str,
    spent: Sequence[EpsilonCurve] = (),
    notes: Sequence[str] = (),
    clients: Sequence[int] | None = None,
) -> int:
    """Write the trace to `path` and return the number of JSON events in it.

    `events`: a whole trace of one or more seeds; `title` names the run; `spent` become counters and `notes` are kept in
    the file; `clients`: only their tracks (None: all). A name that ends in `.gz` is compressed, which Perfetto reads as
    well. The same trace gives the same bytes. Raises OutputError where it cannot be written, and where a file lies that
    is no trace.
    """
    path = Path(path)
    with atomic_file(path, _is_trace) as part, part.open("wb") as raw:
        return _write(raw, path.suffix == ".gz", chrome_trace(events, title, spent, clients), title, notes)


def _is_trace(head: bytes) -> bool:
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head)
        except zlib.error:
            return False
    return not head or head.startswith(b'{"displayTimeUnit"')


def _write(raw: Any, compress: bool, lines: Iterable[str], title: str, notes: Sequence[str]) -> int:
    # No name and no time in the header: the same bytes each time.
    sink = gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) if compress else raw
    with io.TextIOWrapper(sink, encoding="utf-8", newline="\n") as text:
        about = {"run": title, "notes": "; ".join(notes)} if notes else {"run": title}
        text.write(f'{{"displayTimeUnit":"ms","otherData":{json.dumps(about, sort_keys=True)},"traceEvents":[')
        written, pending = 0, []
        for line in lines:
            pending.append(line)
            if len(pending) == LINES_PER_WRITE:
                text.write((",\n" if written else "\n") + ",\n".join(pending))
                written, pending = written + len(pending), []
        if pending:
            text.write((",\n" if written else "\n") + ",\n".join(pending))
        text.write("\n]}\n")
    return written + len(pending)


def chrome_trace(
    events: pa.Table, title: str, spent: Sequence[EpsilonCurve] = (), clients: Sequence[int] | None = None
) -> Iterator[str]:
    """The JSON events of a trace, one text each; the tracks one after another, each in order of time.

    A slice comes before the arrow that begins in it and before slices inside it, because what has the same time is read
    in this order.
    """
    arrow = 0
    seeds = events["seed"].unique().to_pylist()
    for place, seed in enumerate(sorted(seeds)):
        own = events.filter(pc.field("seed") == seed)
        tasks = tasks_of(own)
        made = buffer_spans(own, tasks)
        tracks = Tracks(pid=place + 1, seeds=len(seeds), clients=int(pc.max(own["client"]).as_py()) + 1)
        shown = None if clients is None else set(clients)
        yield from metadata(tracks, f"{title}, seed {seed}", _tracks_used(own, shown), _scorers(made, shown))
        chosen = tasks if shown is None else tasks.select(clients=sorted(shown))
        arrows = yield from client_events(chosen, tracks, arrow)
        yield from offline_slices(own, tracks, shown)
        yield from client_instants(own, tracks, shown)
        yield from server_events(own, made, tracks, shown, arrows)
        yield from counters(own, tasks, tracks)
        for part in spent:
            if part.seed == seed:
                name, times = f"spent epsilon ({part.adversary})", all_microseconds(part.time_s)
                yield from counter_of(name, "most exposed client", times, part.epsilon, tracks)
        arrow += sum(map(len, arrows.values()))


def _tracks_used(events: pa.Table, shown: set[int] | None) -> list[int]:
    known = [client for client in events["client"].unique().to_pylist() if client >= 0]
    return sorted(client for client in known if shown is None or client in shown)


def _scorers(made: Sequence[BufferSpan], shown: set[int] | None) -> list[int]:
    asked = {request.client for batch in made for request in batch.requests}
    return sorted(client for client in asked if shown is None or client in shown)
