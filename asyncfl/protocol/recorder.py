"""Recording of events as they happen, in columns."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.base.files.batch_spool import BatchSpool
from asyncfl.base.tables import array_of
from asyncfl.protocol.events import SCHEMA, Kind

EVENT_COLUMNS = tuple(name for name in SCHEMA.names if name not in ("seq", "seed"))
"""Columns that the caller gives for each event; the recorder fills in `seq` and `seed`."""

FLUSH_AT = 16_384 * len(EVENT_COLUMNS)
"""Values of events kept as Python objects before they are packed into an Arrow batch on disk."""

Columns: TypeAlias = dict[str, NDArray[Any]]
"""Column -> its values, of equal length."""
TEXTS = tuple(field.name for field in SCHEMA if pa.types.is_dictionary(field.type))
_STORED = pa.schema(
    [(one.name, one.type.index_type if one.name in TEXTS else one.type) for one in SCHEMA if one.name != "seed"]
)

NAN = float("nan")

UNPACKABLE = (pa.ArrowException, OverflowError, TypeError, ValueError)
"""Errors of a value that a column cannot hold."""


class Recorder:
    """Events of one seed, spooled to disk (about 100 bytes per event) so that a long run does not fill the memory."""

    def __init__(self, seed: int, whole: bool = True) -> None:
        """`whole`: whether phases of tasks, retransmissions and messages overheard in part are recorded too."""
        self.seed = seed
        self.whole = whole
        self.values: list[Any] = []
        """Columns of the latest events, one event after another: a tuple for each would keep the garbage collector
        busy."""
        self.set_aside: list[str] = []
        """Events that the table cannot hold, as text."""
        self.end_s = 0.0
        """Time of the last event, as far as they are packed: in all, once there is a table."""
        self._spool = BatchSpool()
        self._packed = 0
        self._words: dict[str, dict[str, int]] = {name: {} for name in TEXTS}
        """Column -> its texts, with their codes in memory."""
        self._texts: dict[str, list[str]] = {name: [] for name in TEXTS}
        """Column -> its texts in the order in which they come, as in a table that was read from disk."""
        self._numbers = {name: np.empty(0, dtype=np.int64) for name in TEXTS}
        """Column -> place of the text of each code in that order; -1: it has not come yet."""

    def __len__(self) -> int:
        return self._packed + len(self.values) // len(EVENT_COLUMNS)

    def add(
        self,
        time_s: float,
        kind: Kind,
        task: int = -1,
        client: int = -1,
        version: int = -1,
        base_version: int = -1,
        staleness: int = -1,
        size: int = -1,
        attempt: int = -1,
        weight: float = NAN,
        detail: str = "",
    ) -> None:
        """Record one event. The arguments are the columns of `Event`; `size` is its column `bytes`."""
        values = self.values
        values += (time_s, kind, task, client, version, base_version, staleness, size, attempt, weight, detail)
        if len(values) >= FLUSH_AT:
            self.flush()

    def flush(self) -> None:
        """Pack the latest events and move them to disk."""
        self._put(self._columns())
        self.values.clear()

    def table(self) -> pa.Table:
        """Return all events so far, in order. It can be called at any time."""
        return self._table(self._columns())

    def _put(self, columns: Columns) -> None:
        """Move events to disk."""
        batch = self._batch(columns)
        self._spool.put(batch)
        self._packed += len(batch)

    def _table(self, latest: Columns) -> pa.Table:
        """Return the events on disk and the `latest`."""
        batches = [*self._spool.batches(), self._batch(latest)]
        columns, seeds = [], pa.array(np.full(max(map(len, batches)), self.seed), SCHEMA.field("seed").type)
        for field in SCHEMA:
            if field.name == "seed":
                chunks = [seeds[: len(batch)] for batch in batches]
            else:
                chunks = [batch[field.name] for batch in batches]
            if field.name in self._texts:
                texts = pa.array(self._texts[field.name], pa.string())
                # Not checked against the number of texts: that would read them all from disk.
                chunks = [pa.DictionaryArray.from_arrays(chunk, texts, safe=False) for chunk in chunks]
            columns.append(pa.chunked_array([chunk for chunk in chunks if len(chunk)], field.type))
        return pa.table(columns, schema=SCHEMA)

    def _batch(self, columns: Columns) -> pa.RecordBatch:
        """Return events that follow those on disk, their texts numbered in the order in which they come."""
        events = len(columns["time_s"])
        made = dict(columns)
        made["seq"] = np.arange(self._packed, self._packed + events)
        self.end_s = max(self.end_s, made["time_s"].max(initial=0.0))
        for name in TEXTS:
            made[name] = self._numbered(name, columns[name])
        return pa.RecordBatch.from_arrays([pa.array(made[one.name], one.type) for one in _STORED], schema=_STORED)

    def _columns(self) -> Columns:
        """Return the events of `values` in columns, their texts as codes of `_words`; those that the table cannot hold
        are set aside."""
        try:
            return self._converted(self.values)
        except UNPACKABLE:
            given, values = len(EVENT_COLUMNS), self.values
            self.values = []
            for event in (values[place : place + given] for place in range(0, len(values), given)):
                try:
                    self._converted(event)
                    self.values += event
                except UNPACKABLE:
                    text = ", ".join(f"{name} {value}" for name, value in zip(EVENT_COLUMNS, event, strict=True))
                    self.set_aside.append(text[:1000])
            return self._converted(self.values)

    def _converted(self, values: list[Any]) -> Columns:
        made: Columns = {}
        for place, name in enumerate(EVENT_COLUMNS):
            column = array_of(SCHEMA.field(name), values[place :: len(EVENT_COLUMNS)])
            if name in self._words:
                codes = [self._code(name, text) for text in column.dictionary.to_pylist()]
                made[name] = np.array(codes, dtype=np.int64)[column.indices.to_numpy()]
            else:
                made[name] = column.to_numpy()
        return made

    def _numbered(self, column: str, codes: NDArray[Any]) -> NDArray[Any]:
        """Return the number of each text of a column in the table. `codes`: (n,) of the texts in `_words`."""
        words, texts, numbers = self._words[column], self._texts[column], self._numbers[column]
        if len(numbers) < len(words):
            numbers = np.append(numbers, np.full(len(words) - len(numbers), -1))
            self._numbers[column] = numbers
        is_new = numbers[codes] < 0
        if is_new.any():
            every = [*words]
            for code in dict.fromkeys(codes[is_new].tolist()):
                numbers[code] = len(texts)
                texts.append(every[code])
        found: NDArray[Any] = numbers[codes]
        return found

    def _code(self, column: str, text: str) -> int:
        """Return the code of a text in `_words`."""
        words = self._words[column]
        return words.setdefault(text, len(words))
