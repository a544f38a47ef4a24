"""Export of a trace as Chrome Trace JSON, for Perfetto (ui.perfetto.dev) and chrome://tracing.

Each seed is a process. Its first track is the server's, with a slice per version that contains the scoring and the
aggregation of the next version. Each client has a track with a slice per task, which contains download, train and
upload, and slices for known absences. A client that scored models has a second track for these requests, because it may
train at the same time. Instants mark events without duration. Counters show the version, the updates that the server
holds and the epsilon spent. Arrows lead from an upload to its aggregation. Times are whole microseconds.

Format: "Trace Event Format" of the Chromium project. Slices of a track nest; an arrow binds to the slice around it.
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

from asyncfl.base.files.atomic import atomic_file
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
    """Write a trace to `path` and return the number of JSON events written.

    `events`: a whole trace of one or more seeds. `title`: name of the run. `spent`: epsilon curves, shown as counters.
    `notes`: texts stored in the file. `clients`: clients with tracks; None: all. A path that ends in `.gz` is
    compressed, which Perfetto also reads. The same trace gives the same bytes. Raises OutputError where the file cannot
    be written, and where `path` is a file other than a trace.
    """
    path = Path(path)
    with atomic_file(path, _is_trace) as part, part.open("wb") as raw:
        return _write(raw, path.suffix == ".gz", chrome_trace(events, title, spent, clients), title, notes)


def _is_trace(head: bytes) -> bool:
    """Return whether a file that begins with `head` is a trace written by this module, or empty."""
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head)
        except zlib.error:
            return False
    return not head or head.startswith(b'{"displayTimeUnit"')


def _write(raw: Any, compress: bool, lines: Iterable[str], title: str, notes: Sequence[str]) -> int:
    """Write the JSON events `lines` with their head and tail into the open file `raw`; return their number."""
    # Without name and time in its header, the compressed file has the same bytes each time.
    sink = gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) if compress else raw
    with io.TextIOWrapper(sink, encoding="utf-8", newline="\n") as text:
        metadata_of_run = {"run": title, "notes": "; ".join(notes)} if notes else {"run": title}
        other = json.dumps(metadata_of_run, sort_keys=True)
        text.write(f'{{"displayTimeUnit":"ms","otherData":{other},"traceEvents":[')
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
    """Yield the JSON events of a trace, one text each: one track after another, each in order of time.

    A slice precedes the arrow that starts in it and the slices inside it, because readers process events of the same
    time in the order of the file.
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
    """Return the clients with events, ascending, that are in `shown` (None: all)."""
    known = [client for client in events["client"].unique().to_pylist() if client >= 0]
    return sorted(client for client in known if shown is None or client in shown)


def _scorers(spans: Sequence[BufferSpan], shown: set[int] | None) -> list[int]:
    """Return the clients that were asked to score models, ascending, that are in `shown` (None: all)."""
    asked = {request.client for batch in spans for request in batch.requests}
    return sorted(client for client in asked if shown is None or client in shown)
