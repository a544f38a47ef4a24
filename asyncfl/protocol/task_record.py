"""The record of a task, from its dispatch to its fate: a row of `tasks.parquet`.

Server, driver, clients and ledger share the record. Whoever logs an event of a task has the task `note` it, and
`settle` writes its fate; tables, ledger, audits, views and calibration read the rows, and derive nothing from events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.base.arrays import Floats, Ints
from asyncfl.base.files.batch_spool import BatchSpool
from asyncfl.base.tables import TasksTable, UploadColumns, array_of, renumbered, schema_of
from asyncfl.protocol.events import NO_EPOCH, SCORING_DOWN, Kind, epochs_done
from asyncfl.protocol.messages import Download, Fate

NAN = math.nan


class EventColumns(NamedTuple):
    """Events of one kind of several tasks, in columns."""

    rows: Ints
    """(n,) index of each task among those asked for."""
    kind: Kind
    time_s: Floats
    """(n,) time of the clock, seconds."""
    size: Ints | int = -1
    """(n,) bytes, or those of all; -1 for none."""
    attempt: Ints | int = -1
    """(n,) number of the transmission, or that of all; -1 for none."""
    detail: str = ""

    def of(self, place: int) -> tuple[int, int]:
        """Return bytes and number of the transmission of one of the events."""
        size, attempt = self.size, self.attempt
        return (
            size if isinstance(size, int) else int(size[place]),
            attempt if isinstance(attempt, int) else int(attempt[place]),
        )


class PlannedEvents(Protocol):
    """Tasks whose events between begin and end are known in columns."""

    def events(self, rows: Ints, began_s: Floats) -> Iterator[EventColumns]:
        """Yield the events of the tasks in `rows` (n,), which began at `began_s` (n,)."""
        ...


class TaskRecord(msgspec.Struct, eq=False, gc=False):
    """A model that was sent to a client for training, and all that happened to it. Columns: see `TasksTable`."""

    number: int
    client: int
    base_version: int
    turn: int = 0
    cohort: int = -1
    """Version at whose publication the client was drawn; -1 without cohorts."""
    sent_s: float = 0.0
    """Time at which the server gave the task, in seconds."""
    epochs: int | None = None
    base: Download | None = None
    """The model that the client was sent, kept if it must train even after the server has forgotten that version."""
    trained: bool = False
    """Whether the client has already trained this task, or may have done so."""
    is_put_away: bool = False
    """Whether its row is on disk, so that a further event is a correction."""
    planned: tuple[PlannedEvents, int, float] | None = None
    """Source of its events between begin and end, its row there, and its begin in seconds; None: these are noted
    already."""
    dispatched_s: float = NAN
    download_started_s: float = NAN
    downloaded_s: float = NAN
    training_started_s: float = NAN
    trained_s: float = NAN
    upload_started_s: float = NAN
    uploaded_s: float = NAN
    left_s: float = NAN
    outcome: str = ""
    settled_s: float = NAN
    fate: Fate = Fate.UNFINISHED
    making: int = -1
    staleness: int = -1
    weight: float = 0.0
    held: bool = False
    download_bytes: int = -1
    upload_bytes: int = -1
    bytes_down: int = 0
    bytes_up: int = 0
    attempts_down: int = 0
    attempts_up: int = 0
    overheard_down_s: float = NAN
    overheard_up_s: float = NAN
    overheard_scoring_s: float = NAN
    overheard_down_in_part_s: float = NAN
    overheard_up_in_part_s: float = NAN
    overheard_scoring_in_part_s: float = NAN

    @property
    def overheard(self) -> bool:
        """Whether the eavesdropper holds its update."""
        if self.planned is not None:
            source, row, began_s = self.planned
            self.planned = None
            for one in source.events(np.array([row]), np.array([began_s])):
                for place, time_s in enumerate(one.time_s.tolist()):
                    self.note(one.kind, time_s, *one.of(place), one.detail)
        return self.overheard_up_s == self.overheard_up_s or self.overheard_scoring_s == self.overheard_scoring_s

    def note(self, kind: Kind, time_s: float, size: int, attempt: int, detail: str) -> None:
        """Write what an event of the task means into its record. Arguments: columns of the event."""
        if (note := NOTES.get(kind)) is not None:
            note(self, time_s, size, attempt, detail)

    def note_all(self, events: Iterable[tuple[Kind, float, int, int, str]]) -> None:
        """Write what each event means into the record. `events`: arguments of `note`."""
        noted = NOTES.get
        for kind, time_s, size, attempt, detail in events:
            if (note := noted(kind)) is not None:
                note(self, time_s, size, attempt, detail)

    def settle(self, time_s: float, fate: Fate, making: int, staleness: int, weight: float) -> None:
        """Write the fate that the server decided while it was `making` a version."""
        self.settled_s, self.fate, self.making, self.staleness, self.weight = time_s, fate, making, staleness, weight

    # --- events ----------------------------------------------------------------------------------------------------

    def _dispatched(self, time_s: float, size: int, attempt: int, detail: str) -> None:
        self.dispatched_s = time_s

    def _download_started(self, time_s: float, size: int, attempt: int, detail: str) -> None:
        self.download_started_s, self.download_bytes = time_s, size

    def _downloaded(self, time_s: float, size: int, attempt: int, detail: str) -> None:
        self.downloaded_s, self.bytes_down, self.attempts_down = time_s, size, attempt

    def _training_started(self, time_s: float, size: int, attempt: int, detail: str) -> None:
        self.training_started_s = time_s

    def _trained(self, time_s: float, size: int, attempt: int, detail: str) -> None:
        self.trained_s, self.epochs = time_s, epochs_done(detail)

    def _upload_started(self, time_s: float, size: int, attempt: int, detail: str) -> None:
        self.upload_started_s, self.upload_bytes = time_s, size

    def _uploaded(self, time_s: float, size: int, attempt: int, detail: str) -> None:
        self.uploaded_s, self.bytes_up, self.attempts_up = time_s, size, attempt
        self.held = self.settled_s != self.settled_s
        self._left(time_s, "uploaded")

    def _lost(self, time_s: float, size: int, attempt: int, detail: str) -> None:
        self._sent(detail, size, attempt)
        self._left(time_s, f"lost_{detail}")

    def _went_offline(self, time_s: float, size: int, attempt: int, detail: str) -> None:
        if size >= 0:
            self._sent(self._way, size, attempt)
        self.left_s, self.outcome = time_s, "offline"

    def _dropped_out(self, time_s: float, size: int, attempt: int, detail: str) -> None:
        if size >= 0:
            self._sent(self._way, size, attempt)
        self._left(time_s, _OUTCOMES.get(detail, detail))

    def _left(self, time_s: float, outcome: str) -> None:
        # The server may learn only later that the client went offline.
        if self.outcome != "offline":
            self.left_s, self.outcome = time_s, outcome

    @property
    def _way(self) -> str:
        """Direction of the message that breaks off now."""
        return "down" if self.upload_started_s != self.upload_started_s else "up"

    def _sent(self, way: str, size: int, attempt: int) -> None:
        if way == "down":
            self.bytes_down, self.attempts_down = size, attempt
        else:
            self.bytes_up, self.attempts_up = size, attempt

    def _overheard(self, time_s: float, size: int, attempt: int, detail: str) -> None:
        self._caught(_TAPPED[detail], time_s)

    def _overheard_in_part(self, time_s: float, size: int, attempt: int, detail: str) -> None:
        self._caught(_TAPPED_IN_PART[detail], time_s)

    def _caught(self, column: str, time_s: float) -> None:
        before_s = getattr(self, column)
        if before_s != before_s:
            setattr(self, column, time_s)


_OUTCOMES = {"": "dropped_out", "down": "dropped_out", "up": "dropped_out", NO_EPOCH: "no_epoch"}
"""Detail of a dropout -> how the client's work ended, where the detail does not name that."""
_TAPPED = {"down": "overheard_down_s", "up": "overheard_up_s", SCORING_DOWN: "overheard_scoring_s"}
"""Way of an overheard message -> column of the time."""
_TAPPED_IN_PART = {way: f"{column.removesuffix('_s')}_in_part_s" for way, column in _TAPPED.items()}

_MEANINGS: dict[tuple[Kind, str], tuple[str, ...]] = {
    (Kind.DOWNLOAD_STARTED, ""): ("download_started_s", "download_bytes"),
    (Kind.DOWNLOADED, "down"): ("downloaded_s", "bytes_down", "attempts_down"),
    (Kind.TRAINING_STARTED, ""): ("training_started_s",),
    (Kind.TRAINED, ""): ("trained_s",),
    (Kind.UPLOAD_STARTED, ""): ("upload_started_s", "upload_bytes"),
    **{(Kind.OVERHEARD, way): (column,) for way, column in _TAPPED.items()},
    **{(Kind.OVERHEARD_IN_PART, way): (column,) for way, column in _TAPPED_IN_PART.items()},
}
"""Kind and detail of a planned event -> columns of its time, its bytes and the number of its transmission."""
_PLANNED = {name for columns in _MEANINGS.values() for name in columns}

SETTLING = (Kind.AGGREGATED, Kind.FLAGGED, Kind.REJECTED, Kind.DISCARDED, Kind.LOST, Kind.DROPPED_OUT)
"""Kinds of events that may settle a task."""
FINAL = frozenset((Kind.UPLOADED, Kind.LOST, Kind.DROPPED_OUT, Kind.WENT_OFFLINE))
"""Kinds of events after which the client is done with a task."""

NOTES: dict[Kind, Callable[[TaskRecord, float, int, int, str], None]] = {
    Kind.DISPATCHED: TaskRecord._dispatched,
    Kind.DOWNLOAD_STARTED: TaskRecord._download_started,
    Kind.DOWNLOADED: TaskRecord._downloaded,
    Kind.TRAINING_STARTED: TaskRecord._training_started,
    Kind.TRAINED: TaskRecord._trained,
    Kind.UPLOAD_STARTED: TaskRecord._upload_started,
    Kind.UPLOADED: TaskRecord._uploaded,
    Kind.LOST: TaskRecord._lost,
    Kind.WENT_OFFLINE: TaskRecord._went_offline,
    Kind.DROPPED_OUT: TaskRecord._dropped_out,
    Kind.OVERHEARD: TaskRecord._overheard,
    Kind.OVERHEARD_IN_PART: TaskRecord._overheard_in_part,
}
"""Kind of event that a record tells of -> method that writes what it means."""


SCHEMA = schema_of(TasksTable, UploadColumns)
"""Columns of the table of tasks, in order."""
_OWN = tuple(name for name in SCHEMA.names if name not in ("seed", "end_s", *UploadColumns.model_fields))
_ROW = attrgetter(*("number" if name == "task" else name for name in _OWN))
_SPOOLED = pa.schema([SCHEMA.field(name) for name in _OWN])

PUT_AWAY_AT = 8192
"""Tasks that are over and kept as objects, before the first half of them is packed and moved to disk. An event may
still concern one that is over: a message may be overheard as it arrives."""


ON_DISK_FROM = 50_000
"""Rows from which the whole table is on disk, and read from there where it is needed."""


class TaskRows:
    """Records of all tasks of one seed that have begun; those that are over are spooled to disk."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._open: dict[int, TaskRecord] = {}
        self._over: list[TaskRecord] = []
        self._spool = BatchSpool()
        self._corrected: dict[int, TaskRecord] = {}
        """Tasks with an event after their row was put on disk."""

    def begin(self, task: TaskRecord) -> None:
        """Add a task whose model was sent."""
        self._open[task.number] = task

    def end(self, task: TaskRecord) -> None:
        """Take note that a task is over. No effect on one that has not begun."""
        if self._open.pop(task.number, None) is None:
            return
        task.base = None
        self._over.append(task)
        if len(self._over) >= PUT_AWAY_AT:
            half = PUT_AWAY_AT // 2
            self._spool.put(_packed(self._over[:half]))
            for one in self._over[:half]:
                one.is_put_away = True
            del self._over[:half]

    def correct(self, task: TaskRecord) -> None:
        """Take note that an event came of a task whose row is on disk already."""
        self._corrected[task.number] = task

    def table(self, end_s: float) -> pa.Table:
        """Return the rows so far, by task. `end_s`: time of the last event of the seed."""
        here = _packed([*self._corrected.values(), *self._over, *self._open.values()])
        order = pc.sort_indices(self._unsorted("task", here))
        constants, columns, sorted_rows = {"seed": self.seed, "end_s": end_s}, list[pa.Array](), BatchSpool()
        for one in SCHEMA:
            # Column by column, so that the whole table need not be in memory. Texts are numbered in the order of the
            # rows, as in a table that was read from disk.
            if one.name in _OWN:
                taken = self._unsorted(one.name, here).take(order).combine_chunks()
                column = renumbered(pa.chunked_array([taken], one.type)).chunk(0)
            elif one.name in constants:
                column = pa.array(np.full(len(order), constants[one.name]), one.type)
            else:
                column = pa.nulls(len(order), one.type)  # what is known of trained updates is added to it later
            if len(order) >= ON_DISK_FROM:
                sorted_rows.put(pa.record_batch([column], [one.name]))
            else:
                columns.append(column)
        columns += [batch.column(0) for batch in sorted_rows.batches()]
        return pa.table(columns, schema=SCHEMA)

    def _unsorted(self, column: str, here: pa.RecordBatch) -> pa.ChunkedArray:
        """Return a column of all rows. `here`: those in memory. The file is mapped anew each time: what was read of
        other columns does not stay in memory."""
        away = pa.Table.from_batches(self._spool.batches(), _SPOOLED)
        if self._corrected:
            away = away.filter(pc.invert(pc.is_in(away["task"], pa.array([*self._corrected], pa.int64()))))
        return pa.chunked_array([*away[column].chunks, here[column]], here[column].type).unify_dictionaries()


def _packed(tasks: Sequence[TaskRecord]) -> pa.RecordBatch:
    # One list of all values, from which columns are cut: half as much as to transpose rows.
    values: list[Any] = []
    planned: dict[PlannedEvents, list[tuple[int, int, float]]] = {}
    for place, task in enumerate(tasks):
        values += _ROW(task)
        if task.planned is not None:
            source, row, began_s = task.planned
            planned.setdefault(source, []).append((place, row, began_s))
    columns: dict[str, Any] = {name: values[place :: len(_OWN)] for place, name in enumerate(_OWN)}
    columns |= {name: np.array(columns[name]) for name in _PLANNED} if planned else {}
    for source, those in planned.items():
        places, rows, begins_s = map(np.array, zip(*those, strict=True))
        for events in source.events(rows, begins_s):
            known = _MEANINGS.get((events.kind, events.detail), ())
            for name, value in zip(known, (events.time_s, events.size, events.attempt), strict=False):
                columns[name][places[events.rows]] = value
    arrays = [array_of(one, columns[one.name]) for one in _SPOOLED]
    return pa.RecordBatch.from_arrays(arrays, schema=_SPOOLED)
