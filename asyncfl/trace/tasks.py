"""Tasks of a trace: one row per task with the times of its phases and its fate, computed from the events.

No event records the fate `unfinished`: it is that of all tasks still open when the trace ends. The server may give a
task up (timed out, banned) while its client continues. The first event that settles a task decides its fate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.base.messages import Fate
from asyncfl.trace.events import Kind

KINDS: tuple[str, ...] = tuple(kind.value for kind in Kind)
FATES: tuple[str, ...] = tuple(fate.value for fate in Fate)

SETTLING = (Kind.AGGREGATED, Kind.FLAGGED, Kind.REJECTED, Kind.DISCARDED, Kind.LOST, Kind.DROPPED_OUT)
"""Kinds of events that may settle a task."""

JUDGED = (Fate.AGGREGATED, Fate.FLAGGED, Fate.REJECTED)
"""Fates of updates that the server has judged."""

STEPS = ("dispatched", "download_started", "downloaded", "training_started", "trained", "upload_started", "uploaded")
"""Kinds of events of a client's work on a task, in order."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def microseconds(times_s: Floats) -> Ints:
    """Return seconds as whole microseconds, rounded, so that slices that nest still nest; NaN becomes -1."""
    return np.where(np.isnan(times_s), -1, np.rint(np.nan_to_num(times_s) * 1e6)).astype(np.int64)


def codes(column: pa.ChunkedArray, names: Sequence[str]) -> Ints:
    """Return the index in `names` of each text of a column, (rows,); -1 for a text that is not in `names`."""
    encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    place = {name: number for number, name in enumerate(names)}
    known = np.array([place.get(text, -1) for text in encoded.dictionary.to_pylist()], dtype=np.int64)
    return known[encoded.indices.to_numpy(zero_copy_only=False)] if len(known) else np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Tasks:
    """Tasks as columns of equal length, ordered by seed and number. Times are virtual seconds; NaN: did not happen.

    `base_version`: version that the client was sent. `left_s`: end of the client's work: the upload arrived, a message
    was lost, or the client dropped out or went offline. `settled_s`: time at which the server settled the task; NaN for
    an unfinished task. `fate`: index in `FATES`. `making`: version that the server was making when the task was
    settled; -1 for an unfinished task. `staleness`: that of a judged update, versions; -1: not judged. `weight`: in the
    aggregate; 0: not in the aggregate.

    `bytes_down`, `bytes_up`: bytes sent to and by the client, including retransmissions and messages that broke off.
    `attempts_down`, `attempts_up`: transmissions of model and update, 1 without retransmissions. All are 0 where the
    trace ends during the message. `overheard`: messages with the task's model or update that the tap holds, 0..3.
    `held`: whether the update arrived before the task was settled, so that the server had to store it. `end_s`: end of
    the trace of the task's seed.
    """

    seed: Ints
    task: Ints
    client: Ints
    base_version: Ints
    dispatched_s: Floats
    download_started_s: Floats
    downloaded_s: Floats
    training_started_s: Floats
    trained_s: Floats
    upload_started_s: Floats
    uploaded_s: Floats
    left_s: Floats
    settled_s: Floats
    fate: Ints
    making: Ints
    staleness: Ints
    weight: Floats
    bytes_down: Ints
    bytes_up: Ints
    attempts_down: Ints
    attempts_up: Ints
    overheard: Ints
    held: NDArray[np.bool_]
    end_s: Floats

    def __len__(self) -> int:
        return len(self.task)

    def only(self, chosen: NDArray[Any]) -> Tasks:
        """Return the rows chosen by a mask (tasks,) or by their indices."""
        return Tasks(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    def select(
        self,
        *,
        clients: Sequence[int] | None = None,
        task: int | None = None,
        seed: int | None = None,
        since_s: float | None = None,
        until_s: float | None = None,
    ) -> Tasks:
        """Return the tasks that meet every given condition. Times are those of the dispatch, both ends included."""
        chosen = np.ones(len(self), dtype=bool)
        if clients is not None:
            chosen &= np.isin(self.client, list(clients))
        for column, value in ((self.task, task), (self.seed, seed)):
            if value is not None:
                chosen &= column == value
        if since_s is not None:
            chosen &= self.dispatched_s >= since_s
        if until_s is not None:
            chosen &= self.dispatched_s <= until_s
        return self.only(chosen)

    @property
    def download_s(self) -> Floats:
        """Seconds of the download; NaN: the model did not arrive."""
        return self.downloaded_s - self.download_started_s

    @property
    def training_s(self) -> Floats:
        """Seconds of the training; NaN: not finished."""
        return self.trained_s - self.training_started_s

    @property
    def upload_s(self) -> Floats:
        """Seconds of the upload; NaN: the update did not arrive."""
        return self.uploaded_s - self.upload_started_s

    @property
    def waiting_s(self) -> Floats:
        """Seconds from the arrival of an update until it was judged; NaN: it was not judged."""
        judged = np.isin(self.fate, [FATES.index(fate) for fate in JUDGED])
        return np.where(judged, self.settled_s - self.uploaded_s, np.nan)


def tasks_of(events: pa.Table) -> Tasks:
    """Compute the tasks of a whole trace of one or more seeds. `events` must be in the order of the trace."""
    seeds, seed_of = np.unique(_numpy(events, "seed"), return_inverse=True)
    number, time_s = _numpy(events, "task"), _numpy(events, "time_s")
    kind, detail = codes(events["kind"], KINDS), events["detail"]
    # Tasks are numbered 0, 1, 2, ... in each seed, so a slot per task is cheaper than a search.
    sizes = np.array([number[seed_of == place].max(initial=-1) + 1 for place in range(len(seeds))], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    slot = np.where(number >= 0, starts[seed_of] + number, -1)
    slots = int(starts[-1])

    def rows(*kinds: Kind, way: str | None = None) -> Ints:
        """Return the indices of the events of these kinds that belong to a task; `way`: only with this detail."""
        chosen = np.isin(kind, [KINDS.index(name) for name in kinds]) & (slot >= 0)
        found = np.flatnonzero(chosen)
        return found if way is None else found[codes(detail.take(pa.array(found)), (way,)) == 0]

    def column(name: str, found: Ints, blank: float, dtype: type[Any]) -> NDArray[Any]:
        """Return a value per task from the events `found`; `blank` for tasks without one of these."""
        filled = np.full(slots, blank, dtype=dtype)
        filled[slot[found]] = _numpy(events, name)[found]
        return filled

    def times(*kinds: Kind) -> Floats:
        """Return for each task the time of its last event of these kinds, seconds; NaN: none."""
        return column("time_s", rows(*kinds), np.nan, np.float64)

    begun, settling, uploads = rows(Kind.DISPATCHED), rows(*SETTLING), rows(Kind.UPLOADED)
    settled = settling[np.unique(slot[settling], return_index=True)[1]]
    arrived, settled_at = np.full(slots, len(events)), np.full(slots, len(events))
    arrived[slot[uploads]], settled_at[slot[settled]] = uploads, settled
    fate = np.full(slots, FATES.index(Fate.UNFINISHED), dtype=np.int64)
    fate[slot[settled]] = _fates(kind[settled], detail.take(pa.array(settled)))
    making = np.full(slots, -1, dtype=np.int64)
    making[slot[settled]] = _numpy(events, "version")[settled] + 1
    ways = {way: rows(Kind.DOWNLOADED, Kind.UPLOADED, Kind.LOST, way=way) for way in ("down", "up")}
    # The event in which a client leaves has the bytes of the message that breaks off: an upload if one had started.
    broken = rows(Kind.WENT_OFFLINE, Kind.DROPPED_OUT)
    broken = broken[_numpy(events, "bytes")[broken] >= 0]
    sending = np.isin(slot[broken], slot[rows(Kind.UPLOAD_STARTED)])
    for way, found in (("down", broken[~sending]), ("up", broken[sending])):
        ways[way] = np.concatenate([ways[way], found])
    # The server may learn later that the client went offline, by an event `dropped_out`.
    offline_s = times(Kind.WENT_OFFLINE)
    end_s = np.array([time_s[seed_of == place].max(initial=0.0) for place in range(len(seeds))])

    everything = Tasks(
        seed=np.repeat(seeds, sizes).astype(np.int64),
        task=np.arange(slots, dtype=np.int64) - np.repeat(starts[:-1], sizes),
        **{name: column(name, begun, -1, np.int64) for name in ("client", "base_version")},
        **dict[str, Any]({f"{name}_s": times(Kind(name)) for name in STEPS}),
        left_s=np.where(np.isnan(offline_s), times(Kind.UPLOADED, Kind.LOST, Kind.DROPPED_OUT), offline_s),
        settled_s=column("time_s", settled, np.nan, np.float64),
        fate=fate,
        making=making,
        staleness=column("staleness", settled, -1, np.int64),
        weight=np.nan_to_num(column("weight", settled, 0.0, np.float64)),
        **{f"bytes_{way}": column("bytes", found, 0, np.int64) for way, found in ways.items()},
        **{f"attempts_{way}": column("attempt", found, 0, np.int64) for way, found in ways.items()},
        overheard=np.bincount(slot[rows(Kind.OVERHEARD)], minlength=slots).astype(np.int64),
        held=arrived < settled_at,
        end_s=np.repeat(end_s, sizes),
    )
    # Tasks that never started, because their client could not be reached, are left out.
    return everything.only(~np.isnan(everything.dispatched_s))


def _numpy(events: pa.Table, name: str) -> NDArray[Any]:
    column: NDArray[Any] = events[name].to_numpy()
    return column


def _fates(kinds: Ints, details: pa.ChunkedArray) -> Ints:
    """Return the fate that each settling event means, (rows,)."""
    table = np.full(len(KINDS), -1, dtype=np.int64)
    for kind in (Kind.AGGREGATED, Kind.FLAGGED, Kind.REJECTED, Kind.DROPPED_OUT):
        table[KINDS.index(kind)] = FATES.index(kind.value)
    found = table[kinds]
    discarded, lost = kinds == KINDS.index(Kind.DISCARDED), kinds == KINDS.index(Kind.LOST)
    found[discarded] = codes(details, FATES)[discarded]
    ways = np.array([FATES.index(Fate.LOST_DOWN), FATES.index(Fate.LOST_UP)])
    found[lost] = ways[codes(details, ("down", "up"))[lost]]
    return found
