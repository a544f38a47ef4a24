"""Tracks of a Chrome trace, and formatting of its JSON events."""

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
    """Track numbers of one seed. The server's number equals that of the process, so it is the main thread."""

    pid: int
    """Number of the process, from 1."""
    seeds: int
    """Number of seeds in the trace. Tracks of clients are numbered after the processes of all seeds."""
    clients: int
    """Number of clients."""

    @property
    def server(self) -> int:
        """Number of the server's track."""
        return self.pid

    def client(self, client: int) -> int:
        """Return the number of the track with a client's tasks."""
        return self.seeds + 1 + client

    def scoring(self, client: int) -> int:
        """Return the number of the track with a client's scoring requests."""
        return self.seeds + 1 + self.clients + client


def metadata(tracks: Tracks, process: str, clients: Sequence[int], scorers: Sequence[int]) -> Iterator[str]:
    """Yield JSON events that name and order the process and its tracks, a client's requests below its tasks.

    Args:
        tracks: Track numbers of the seed.
        process: Name of the process.
        clients: Clients with a track.
        scorers: Clients with a further track for scoring requests.
    """
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
    """Return seconds as whole microseconds, rounded.

    Rounding keeps the order of times, so slices that nest in seconds still nest.
    """
    return round(time_s * 1e6)


def all_microseconds(times_s: Floats, missing: int = -1) -> Ints:
    """Return an array of seconds as whole microseconds, rounded; NaN becomes `missing`."""
    return np.where(np.isnan(times_s), missing, np.rint(np.nan_to_num(times_s) * 1e6)).astype(np.int64)


def number(value: float) -> str:
    """Return a finite number as the shortest JSON that reads back exactly."""
    return repr(float(value))


def slice_of(name: str, tracks: Tracks, tid: int, began: int, ended: int, args: str = "") -> str:
    """Return the JSON of a slice from `began` to `ended`, microseconds, on the track `tid`.

    `name` must not need escapes; `args`: JSON object or empty.
    """
    more = f',"args":{args}' if args else ""
    return f'{{"name":"{name}","ph":"X","ts":{began},"dur":{ended - began},"pid":{tracks.pid},"tid":{tid}{more}}}'


def instant_of(name: str, tracks: Tracks, tid: int, at: int, args: str = "") -> str:
    """Return the JSON of an instant on the track `tid` at time `at`, microseconds. `args`: JSON object or empty."""
    more = f',"args":{args}' if args else ""
    return f'{{"name":"{name}","ph":"i","s":"t","ts":{at},"pid":{tracks.pid},"tid":{tid}{more}}}'


def counter_of(name: str, key: str, times: Ints, values: NDArray[Any], tracks: Tracks) -> Iterator[str]:
    """Yield the JSON events of the counter `name`, which takes `values` at `times` (microseconds, ascending).

    key: name of the value.
    """
    # Of several values at the same time only the last is visible, and an unchanged value needs no event.
    last = np.append(times[1:] != times[:-1], np.ones(min(len(times), 1), dtype=bool))
    times, values = times[last], values[last]
    changed = np.append(np.ones(min(len(values), 1), dtype=bool), values[1:] != values[:-1])
    for at, value in zip(times[changed].tolist(), values[changed].tolist(), strict=True):
        yield f'{{"name":"{name}","ph":"C","ts":{at},"pid":{tracks.pid},"args":{{"{key}":{value!r}}}}}'
