"""Which tracks a Chrome trace of a run has, and how single values are written in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.trace.tasks import Floats, Ints


@dataclass(frozen=True)
class Tracks:
    """Numbers of the tracks of one seed. The server's equals its process, whose main thread it thereby is."""

    pid: int
    """Number of the process, from 1."""
    seeds: int
    """Seeds of the trace; the tracks of clients come after the numbers of their processes."""
    clients: int

    @property
    def server(self) -> int:
        """Track of the server."""
        return self.pid

    def client(self, client: int) -> int:
        """Track of a client's tasks."""
        return self.seeds + 1 + client

    def scoring(self, client: int) -> int:
        """Track of the requests for scores that a client was sent."""
        return self.seeds + 1 + self.clients + client


def metadata(tracks: Tracks, process: str, clients: Sequence[int], scorers: Sequence[int]) -> Iterator[str]:
    """Names and order of the process and its tracks; a client's requests stand below its tasks."""
    yield _meta(tracks, "process_name", tracks.server, "name", json.dumps(process))
    yield _meta(tracks, "process_sort_index", tracks.server, "sort_index", str(tracks.pid))
    rows = [(tracks.server, "server", 0)]
    rows += [(tracks.client(client), f"client {client}", 2 * client + 1) for client in clients]
    rows += [(tracks.scoring(client), f"client {client}, scoring", 2 * client + 2) for client in scorers]
    for tid, name, order in rows:
        yield _meta(tracks, "thread_name", tid, "name", json.dumps(name))
        yield _meta(tracks, "thread_sort_index", tid, "sort_index", str(order))


def _meta(tracks: Tracks, name: str, tid: int, key: str, value: str) -> str:
    return f'{{"name":"{name}","ph":"M","pid":{tracks.pid},"tid":{tid},"args":{{"{key}":{value}}}}}'


def microseconds(time_s: float) -> int:
    """Whole microseconds. Rounding keeps the order of times, so what nests in seconds nests in microseconds."""
    return round(time_s * 1e6)


def all_microseconds(times_s: Floats, missing: int = -1) -> Ints:
    """The same of an array; `missing` stands for NaN."""
    return np.where(np.isnan(times_s), missing, np.rint(np.nan_to_num(times_s) * 1e6)).astype(np.int64)


def number(value: float) -> str:
    """A finite number as JSON, as short as it can be read back exactly."""
    return repr(float(value))


def slice_of(name: str, tracks: Tracks, tid: int, began: int, ended: int, args: str = "") -> str:
    """A slice from `began` to `ended` in microseconds. `name` needs no escapes; `args` is a JSON object or nothing."""
    more = f',"args":{args}' if args else ""
    return f'{{"name":"{name}","ph":"X","ts":{began},"dur":{ended - began},"pid":{tracks.pid},"tid":{tid}{more}}}'


def instant_of(name: str, tracks: Tracks, tid: int, at: int, args: str = "") -> str:
    """A mark on a track, at a time in microseconds."""
    more = f',"args":{args}' if args else ""
    return f'{{"name":"{name}","ph":"i","s":"t","ts":{at},"pid":{tracks.pid},"tid":{tid}{more}}}'


def counter_of(name: str, key: str, times: Ints, values: NDArray[Any], tracks: Tracks) -> Iterator[str]:
    """A counter of the process that takes `values` at `times` (in microseconds, in order)."""
    # Of several values at the same time only the last can be seen, and one that does not change says nothing.
    last = np.append(times[1:] != times[:-1], np.ones(min(len(times), 1), dtype=bool))
    times, values = times[last], values[last]
    changed = np.append(np.ones(min(len(values), 1), dtype=bool), values[1:] != values[:-1])
    for at, value in zip(times[changed].tolist(), values[changed].tolist(), strict=True):
        yield f'{{"name":"{name}","ph":"C","ts":{at},"pid":{tracks.pid},"args":{{"{key}":{value!r}}}}}'
