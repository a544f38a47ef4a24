"""The tasks of a finished run as NumPy columns: the times of each task's phases, its traffic and its fate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate

KINDS: tuple[str, ...] = tuple(kind.value for kind in Kind)
FATES: tuple[str, ...] = tuple(fate.value for fate in Fate)

JUDGED = (Fate.AGGREGATED, Fate.FLAGGED, Fate.REJECTED)
"""Fates of updates that the server has judged."""

LOST = (Fate.LOST_DOWN, Fate.LOST_UP, Fate.DROPPED_OUT)
"""Fates of tasks whose update did not reach the server."""

DISCARDED = tuple(fate for fate in Fate if fate not in (*JUDGED, *LOST, Fate.UNFINISHED))
"""Fates that the server decides without judging the update."""

STEPS = ("dispatched", "download_started", "downloaded", "training_started", "trained", "upload_started", "uploaded")
"""Kinds of events of a client's work on a task, in order."""

OUTCOMES = ("uploaded", "lost_down", "lost_up", "dropped_out", "no_epoch", "offline")
"""Ways in which a client's work on a task ends."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def microseconds(times_s: Floats) -> Ints:
    """Return seconds as whole microseconds, rounded, so that slices that nest still nest; NaN becomes -1."""
    return np.where(np.isnan(times_s), -1, np.rint(np.nan_to_num(times_s) * 1e6)).astype(np.int64)


def codes(column: pa.ChunkedArray, names: Sequence[str]) -> Ints:
    """Return the index in `names` of each text of a column, (rows,); -1 for a text that is not in `names`."""
    encoded = column.combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    place = {name: number for number, name in enumerate(names)}
    known = np.array([place.get(text, -1) for text in encoded.dictionary.to_pylist()], dtype=np.int64)
    return known[encoded.indices.to_numpy(zero_copy_only=False)] if len(known) else np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Tasks:
    """Tasks as columns of equal length, ordered by seed and number; see `base.tables.TasksTable`.

    Times are virtual seconds; NaN: did not happen. `fate`: index in `FATES`. `outcome`: how the client was done, index
    in `OUTCOMES`; -1: another way, or still at work. `epochs`: done when a deadline stopped the client; -1: all.
    """

    seed: Ints
    task: Ints
    client: Ints
    base_version: Ints
    epochs: Ints
    dispatched_s: Floats
    download_started_s: Floats
    downloaded_s: Floats
    training_started_s: Floats
    trained_s: Floats
    upload_started_s: Floats
    uploaded_s: Floats
    left_s: Floats
    outcome: Ints
    settled_s: Floats
    fate: Ints
    making: Ints
    staleness: Ints
    weight: Floats
    held: NDArray[np.bool_]
    download_bytes: Ints
    upload_bytes: Ints
    bytes_down: Ints
    bytes_up: Ints
    attempts_down: Ints
    attempts_up: Ints
    overheard_down_s: Floats
    overheard_up_s: Floats
    overheard_scoring_s: Floats
    overheard_down_in_part_s: Floats
    overheard_up_in_part_s: Floats
    overheard_scoring_in_part_s: Floats
    end_s: Floats

    @classmethod
    def of(cls, table: pa.Table) -> Tasks:
        """Return the columns of a table of tasks, of one or more seeds."""
        seed, task = _numbers(table["seed"]), _numbers(table["task"])
        if ((np.diff(seed) < 0) | ((np.diff(seed) == 0) & (np.diff(task) < 0))).any():
            table = table.sort_by([("seed", "ascending"), ("task", "ascending")])
        texts = {"fate": FATES, "outcome": OUTCOMES}
        columns: dict[str, Any] = {
            name: codes(table[name], texts[name]) if name in texts else _numbers(table[name])
            for name in (field.name for field in fields(cls))
        }
        return cls(**columns)

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

    def with_fate(self, *fates: Fate) -> NDArray[np.bool_]:
        """Return whether each task has one of these fates, (tasks,)."""
        return np.isin(self.fate, [FATES.index(fate) for fate in fates])

    def with_outcome(self, *outcomes: str) -> NDArray[np.bool_]:
        """Return whether each client's work ended in one of these ways, see `OUTCOMES`; (tasks,)."""
        return np.isin(self.outcome, [OUTCOMES.index(outcome) for outcome in outcomes])

    @property
    def overheard(self) -> Ints:
        """Messages with the task's model or update that the eavesdropper holds, 0..3."""
        times = (self.overheard_down_s, self.overheard_up_s, self.overheard_scoring_s)
        return np.asarray(np.sum([~np.isnan(one) for one in times], axis=0, dtype=np.int64))

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
        return np.where(self.with_fate(*JUDGED), self.settled_s - self.uploaded_s, np.nan)


def _numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column as an array; -1 for null in a column of whole numbers."""
    if pa.types.is_integer(column.type):
        # Neither call may be left to Arrow: it copies also where nothing changes.
        column = column if column.type == pa.int64() else column.cast(pa.int64())
        column = pc.fill_null(column, -1) if column.null_count else column
    return np.asarray(column)
