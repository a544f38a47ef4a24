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
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.base.files.atomic import atomic_file
from asyncfl.protocol.event_query import select
from asyncfl.protocol.events import CAUGHT, Kind
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.score_requests import TracedScoreRequest, score_requests_of
from asyncfl.protocol.tasks import FATES, JUDGED, Floats, Tasks, microseconds

CHUNK = 50_000
"""Tasks or events that are converted to Python objects at a time, to limit memory."""

CLIENT_MARKS = (
    *(Kind.RETRANSMITTED, Kind.LOST, *CAUGHT, Kind.DROPPED_OUT, Kind.ZEROED, Kind.REJECTED, Kind.FLAGGED),
    *(Kind.DISCARDED, Kind.BANNED, Kind.BUDGET_SPENT),
)
"""Kinds of events that become instants on a client's track."""
SERVER_MARKS = (
    *(Kind.SHORT_BUFFER, Kind.COHORT_REPEATED, Kind.SHUFFLED, Kind.UNMASKED, Kind.NOT_UNMASKED),
    *(Kind.STOPPED, Kind.TIMER_FIRED),
)
"""Kinds of events that become instants on the server's track."""


@dataclass(frozen=True)
class EpsilonCurve:
    """Largest exact epsilon of a client towards one adversary over time, for the delta of the ledger. It never falls.

    `time_s`: (n,) times at which it rose, starting with the publication of the initial model. `epsilon`: (n,) from
    these times on.
    """

    seed: int
    adversary: str
    time_s: Floats
    epsilon: Floats


def epsilon_curves(table: pa.Table) -> tuple[list[EpsilonCurve], list[str]]:
    """Return the epsilon curve of each seed and adversary, and a sentence for each whose epsilon is unbounded.

    table: table `spending` of a run, with a row per version: releases between two versions show at the second one.
    """
    found, missing = [], []
    largest = table.filter(pc.field("holder") == "largest").to_pandas()
    if not len(largest):
        return [], ["the run has no rows of clients"]
    for (seed, adversary), rows in largest.groupby(["seed", "adversary"], observed=True):
        times, epsilon = rows["time_s"].to_numpy(), rows["exact_epsilon"].to_numpy()
        if not np.isfinite(epsilon).all():
            missing.append(f"seed {seed}, {adversary}: unbounded, uploads carry no noise that hides anything")
            continue
        rises = np.append(True, np.diff(epsilon) > 0)
        found.append(EpsilonCurve(seed, adversary, times[rises], epsilon[rises]))
    return found, missing


# --- the file ------------------------------------------------------------------------------------------------------


def write_perfetto(
    events: pa.Table,
    tasks: pa.Table,
    path: str | Path,
    *,
    title: str,
    spent: Sequence[EpsilonCurve] = (),
    notes: Sequence[str] = (),
    clients: Sequence[int] | None = None,
) -> int:
    """Write a trace to `path` and return the number of JSON events written.

    `events`, `tasks`: of one or more seeds. `title`: name of the run. `spent`: epsilon curves, shown as counters.
    `notes`: texts stored in the file. `clients`: clients with tracks; None: all. A path that ends in `.gz` is
    compressed, which Perfetto also reads. The same trace gives the same bytes. Raises OutputError where the file cannot
    be written, and where `path` is a file other than a trace.
    """
    path = Path(path)
    with atomic_file(path, _is_trace) as part, part.open("wb") as raw:
        return _write(raw, path.suffix == ".gz", chrome_trace(events, tasks, title, spent, clients), title, notes)


def _is_trace(head: bytes) -> bool:
    """Return whether a file that begins with `head` is a trace written by this module, or empty."""
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head)
        except zlib.error:
            return False
    return not head or head.startswith(b'{"displayTimeUnit"')


def _write(raw: Any, compress: bool, lines: Iterable[str], title: str, notes: Sequence[str]) -> int:
    # Without name and time in its header, the compressed file has the same bytes each time.
    sink = gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) if compress else raw
    written = 0
    with io.TextIOWrapper(sink, encoding="utf-8", newline="\n") as text:
        other = json.dumps({"run": title} | ({"notes": "; ".join(notes)} if notes else {}), sort_keys=True)
        text.write(f'{{"displayTimeUnit":"ms","otherData":{other},"traceEvents":[')
        for written, line in enumerate(lines, start=1):
            text.write(f"{',' if written > 1 else ''}\n{line}")
        text.write("\n]}\n")
    return written


def chrome_trace(
    events: pa.Table,
    tasks: pa.Table,
    title: str,
    spent: Sequence[EpsilonCurve] = (),
    clients: Sequence[int] | None = None,
) -> Iterator[str]:
    """Yield the JSON events of a trace, one text each: one track after another, each in order of time.

    A slice precedes the arrow that starts in it and the slices inside it, because readers process events of the same
    time in the order of the file.
    """
    first_arrow, seeds, every = 0, sorted(events["seed"].unique().to_pylist()), Tasks.of(tasks)
    for place, seed in enumerate(seeds):
        own = select(events, seed=seed)
        of_seed = every.select(seed=seed)
        spans = buffer_spans(own, of_seed)
        tracks = Tracks(pid=place + 1, seeds=len(seeds), clients=int(pc.max(own["client"]).as_py()) + 1)
        scorers = {request.client for span in spans for request in span.requests}
        # Events of the server belong to client -1.
        of_clients = {client for client in own["client"].unique().to_pylist() if client >= 0}
        shown = of_clients if clients is None else of_clients & set(clients)
        yield from tracks.names(f"{title}, seed {seed}", sorted(shown), sorted(scorers & shown))
        arrows = yield from _tasks(of_seed.select(clients=sorted(shown)), tracks, first_arrow)
        yield from _absences(own, tracks, shown)
        yield from _client_instants(own, tracks, shown)
        yield from _server(own, spans, tracks, shown, arrows)
        yield from _counters(own, of_seed, tracks)
        for part in spent:
            if part.seed == seed:
                name = f"spent epsilon ({part.adversary})"
                yield from tracks.counter(name, "most exposed client", microseconds(part.time_s), part.epsilon)
        first_arrow += sum(map(len, arrows.values()))


# --- tracks --------------------------------------------------------------------------------------------------------


def _event(name: str, ph: str, pid: int, tid: int | None, args: dict[str, Any] | None = None, **more: Any) -> str:
    thread = {} if tid is None else {"tid": tid}
    described = {"name": name, "ph": ph, **more, "pid": pid, **thread, **({"args": args} if args else {})}
    return json.dumps(described, separators=(",", ":"))


@dataclass(frozen=True)
class Tracks:
    """Track numbers of one seed. The server's number equals that of the process, so it is the main thread.

    `pid`: number of the process, from 1. Tracks of clients are numbered after the processes of all `seeds`.
    """

    pid: int
    seeds: int
    clients: int

    def client(self, client: int) -> int:
        """Return the number of the track with a client's tasks."""
        return self.seeds + 1 + client

    def scoring(self, client: int) -> int:
        """Return the number of the track with a client's score requests."""
        return self.seeds + 1 + self.clients + client

    def names(self, process: str, clients: Sequence[int], scorers: Sequence[int]) -> Iterator[str]:
        """Yield events that name and order the process and its tracks, a client's requests below its tasks."""
        rows = [("process", self.pid, process, self.pid), ("thread", self.pid, "server", 0)]
        rows += [("thread", self.client(client), f"client {client}", 2 * client + 1) for client in clients]
        rows += [("thread", self.scoring(client), f"client {client}, scoring", 2 * client + 2) for client in scorers]
        for what, tid, name, order in rows:
            yield _event(f"{what}_name", "M", self.pid, tid, {"name": name})
            yield _event(f"{what}_sort_index", "M", self.pid, tid, {"sort_index": order})

    def slice(self, name: str, tid: int, began: int, ended: int, args: dict[str, Any] | None = None) -> str:
        """Return a slice from `began` to `ended`, microseconds."""
        return _event(name, "X", self.pid, tid, args, ts=began, dur=ended - began)

    def instant(self, name: str, tid: int, at: int, args: dict[str, Any] | None = None) -> str:
        """Return an instant at time `at`, microseconds."""
        return _event(name, "i", self.pid, tid, args, s="t", ts=at)

    def arrow(self, end: str, number: int, tid: int, at: int, **more: Any) -> str:
        """Return one end (`s` or `f`) of an arrow between an upload and its aggregation."""
        return _event("update", end, self.pid, tid, cat="update", **more, id=number, ts=at)

    def counter(self, name: str, key: str, times: Any, values: Any) -> Iterator[str]:
        """Yield the events of a counter that takes `values` at `times` (microseconds, ascending)."""
        # Of several values at the same time only the last is visible, and an unchanged value needs no event.
        last = np.append(times[1:] != times[:-1], np.ones(min(len(times), 1), dtype=bool))
        times, values = times[last], values[last]
        changed = np.append(np.ones(min(len(values), 1), dtype=bool), values[1:] != values[:-1])
        for at, value in zip(times[changed].tolist(), values[changed].tolist(), strict=True):
            yield _event(name, "C", self.pid, None, {key: value}, ts=at)


PHASES = (
    ("download", "download_started_s", "downloaded_s", "down"),
    ("train", "training_started_s", "trained_s", ""),
    ("upload", "upload_started_s", "uploaded_s", "up"),
)
"""Phases of a task: name, columns of its beginning and end, direction of its message."""


def _tasks(tasks: Tasks, tracks: Tracks, first_arrow: int) -> Generator[str, None, dict[int, list[int]]]:
    """Yield the slices of tasks, and the starts of arrows; return version -> arrows that lead to its aggregation."""
    arrows: dict[int, list[int]] = defaultdict(list)
    arrow = first_arrow
    for start in range(0, len(tasks), CHUNK):
        part = tasks.only(np.arange(start, min(start + CHUNK, len(tasks))))
        columns = {name: microseconds(one) if name.endswith("_s") else one for name, one in vars(part).items()}
        names = list(columns)
        for row in zip(*(column.tolist() for column in columns.values()), strict=True):
            task: dict[str, Any] = dict(zip(names, row, strict=True))
            tid, fate, gone = tracks.client(task["client"]), FATES[task["fate"]], task["left_s"]
            gone = task["end_s"] if gone < 0 else gone
            about = {"base_version": task["base_version"], "fate": fate}
            if task["staleness"] >= 0:
                about |= {"staleness": task["staleness"], "version": task["making"], "weight": task["weight"]}
            yield tracks.slice(f"task {task['task']}", tid, task["dispatched_s"], gone, about)
            for name, began, ended, way in PHASES:
                if task[began] < 0:
                    continue
                # An unfinished phase ends with the task or with the run.
                args: dict[str, Any] = {"finished": False} if task[ended] < 0 else {}
                if way and task[f"attempts_{way}"]:
                    args |= {"bytes": task[f"bytes_{way}"], "transmissions": task[f"attempts_{way}"]}
                yield tracks.slice(name, tid, task[began], gone if task[ended] < 0 else task[ended], args)
            if fate == Fate.AGGREGATED and task["weight"] > 0:
                yield tracks.arrow("s", arrow, tid, task["upload_started_s"])
                arrows[task["making"]].append(arrow)
                arrow += 1
    return arrows


def _absences(events: pa.Table, tracks: Tracks, shown: set[int]) -> Iterator[str]:
    """Yield a slice for each known absence of a client, up to its return or the end of the trace."""
    away: dict[int, int] = {}
    if not len(select(events, kinds=[Kind.WENT_OFFLINE])):
        return
    changes = select(events, kinds=[Kind.WENT_OFFLINE, Kind.CAME_ONLINE, Kind.DISPATCHED])
    columns = changes["kind"].cast(pa.string()).to_pylist(), changes["client"].to_pylist()
    for at, kind, client in zip(microseconds(changes["time_s"].to_numpy()).tolist(), *columns, strict=True):
        if client not in shown:
            continue
        if kind == Kind.WENT_OFFLINE:
            away.setdefault(client, at)
        elif client in away:
            yield tracks.slice("offline", tracks.client(client), away.pop(client), at)
    end = int(microseconds(events["time_s"].to_numpy()).max())
    for client, at in sorted(away.items()):
        yield tracks.slice("offline", tracks.client(client), at, end)


def _client_instants(events: pa.Table, tracks: Tracks, shown: set[int]) -> Iterator[str]:
    """Yield instants for events of clients and their updates that have no duration."""
    marks = select(events, kinds=CLIENT_MARKS)
    for start in range(0, len(marks), CHUNK):
        for row in marks.slice(start, CHUNK).to_pylist():
            kind, client, detail = row["kind"], row["client"], row["detail"]
            if client not in shown:
                continue
            # A discarded update is marked with the reason: late, stale, timed out, ...
            name = (detail if kind == Kind.DISCARDED else kind).replace("_", " ")
            args: dict[str, Any] = {"task": row["task"]} if row["task"] >= 0 else {}
            if row["attempt"] > 0:
                args["transmission" if kind == Kind.RETRANSMITTED else "transmissions"] = row["attempt"]
            if row["staleness"] >= 0:
                args["staleness"] = row["staleness"]
            if detail and kind != Kind.DISCARDED:
                args["detail"] = detail
            yield tracks.instant(name, tracks.client(client), _microsecond(row["time_s"]), args)


def _microsecond(time_s: float) -> int:
    return round(time_s * 1e6)


@dataclass
class BufferSpan:
    """Times of a buffer from its first update to the `version` made of it, virtual seconds.

    `filling_s`: publication of the version before. `decided_s`: time at which the updates were judged; without judged
    updates, publication of the version or end of the trace. `published_s`: publication of the version; without one, end
    of the trace. `updates`: number of judged updates: aggregated, flagged or rejected.
    """

    version: int
    filling_s: float
    decided_s: float
    published_s: float
    updates: int
    requests: list[TracedScoreRequest] = field(default_factory=list)


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
    decided[started["version"].to_numpy() + 1] = started["time_s"].to_numpy()
    spans = {}
    for version in range(1, versions):
        over = version < len(published)
        published_s = float(published[version]) if over else end_s
        decided_s = published_s if decided[version] == -np.inf else float(decided[version])
        if over or updates[version] or end_s > published[version - 1]:
            begun_s = float(published[version - 1])
            spans[version] = BufferSpan(version, begun_s, decided_s, published_s, int(updates[version]))
    for request in score_requests_of(events):
        if request.making in spans:
            spans[request.making].requests.append(request)
    return list(spans.values())


def _server(
    events: pa.Table,
    spans: Sequence[BufferSpan],
    tracks: Tracks,
    shown: set[int],
    arrows: Mapping[int, Sequence[int]],
) -> Iterator[str]:
    """Yield slices of versions with scoring and aggregation inside, score requests of clients, and instants."""
    server = tracks.pid
    for span in spans:
        decided, published = _microsecond(span.decided_s), _microsecond(span.published_s)
        yield tracks.slice(f"version {span.version - 1}", server, _microsecond(span.filling_s), published)
        for request in span.requests:
            asked, detail = (_microsecond(request.asked_s), _microsecond(request.ended_s)), request.description
            yield tracks.slice("score", server, *asked, {"client": request.client, "detail": detail})
            if request.client in shown:
                about = {"for_version": span.version, "detail": detail}
                yield tracks.slice("score", tracks.scoring(request.client), *asked, about)
        if span.updates or span.decided_s < span.published_s:
            name = f"aggregate into version {span.version}"
            yield tracks.slice(name, server, decided, published, {"updates": span.updates})
            # An arrow binds to the slice read last.
            for arrow in arrows.get(span.version, ()):
                yield tracks.arrow("f", arrow, server, decided, bp="e")
    for row in select(events, kinds=SERVER_MARKS).to_pylist():
        # Timers of single tasks show on the clients' tracks, as fates of the tasks.
        if row["kind"] != Kind.TIMER_FIRED or row["detail"].partition(":")[0] in ("deadline", "time_limit"):
            name = row["kind"].replace("_", " ")
            yield tracks.instant(name, server, _microsecond(row["time_s"]), {"detail": row["detail"]})


def _counters(events: pa.Table, tasks: Tasks, tracks: Tracks) -> Iterator[str]:
    """Yield two counters over time: newest version, and arrived updates that are not settled."""
    published = select(events, kinds=[Kind.PUBLISHED])
    times = microseconds(published["time_s"].to_numpy())
    yield from tracks.counter("version", "number", times, published["version"].to_numpy())
    held = tasks.only(tasks.held)
    gone = np.where(np.isnan(held.settled_s), held.end_s, held.settled_s)
    at = microseconds(np.concatenate([held.uploaded_s, gone]))
    order = np.argsort(at, kind="stable")
    fill = np.concatenate([[0], np.cumsum(np.repeat([1, -1], len(held))[order])])
    yield from tracks.counter("buffer fill", "updates", np.concatenate([[0], at[order]]), fill)
