"""Recording of events as they happen, in columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from asyncfl.base.files.batch_spool import BatchSpool
from asyncfl.base.tables import array_of
from asyncfl.protocol.events import SCHEMA, Kind

EVENT_COLUMNS = tuple(name for name in SCHEMA.names if name not in ("seq", "seed"))
"""Columns that the caller gives for each event; the recorder fills in `seq` and `seed`."""

FLUSH_AT = 16_384 * len(EVENT_COLUMNS)
"""Values of events kept as Python objects before they are packed into an Arrow batch on disk."""

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
        self._spool = BatchSpool()
        self._packed = 0

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
        batch = self._batch()
        self._spool.put(batch)
        self._packed += len(batch)
        self.values.clear()

    def _batch(self) -> pa.RecordBatch:
        """Return the events that are not in the spool as an Arrow batch; those that it cannot hold are set aside."""
        try:
            return self._packed_events(self.values)
        except UNPACKABLE:
            given, values = len(EVENT_COLUMNS), self.values
            self.values = []
            for event in (values[place : place + given] for place in range(0, len(values), given)):
                try:
                    self._packed_events(event)
                    self.values += event
                except UNPACKABLE:
                    text = ", ".join(f"{name} {value}" for name, value in zip(EVENT_COLUMNS, event, strict=True))
                    self.set_aside.append(text[:1000])
            return self._packed_events(self.values)

    def _packed_events(self, values: list[Any]) -> pa.RecordBatch:
        given, events = len(EVENT_COLUMNS), len(values) // len(EVENT_COLUMNS)
        made: dict[str, Any] = {name: values[place::given] for place, name in enumerate(EVENT_COLUMNS)}
        made["seq"] = np.arange(self._packed, self._packed + events)
        made["seed"] = np.full(events, self.seed)
        arrays = [array_of(field, made[field.name]) for field in SCHEMA]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def table(self) -> pa.Table:
        """Return all events so far, in order. It can be called at any time."""
        batches = [*self._spool.batches(), *([self._batch()] if self.values else [])]
        return pa.Table.from_batches(batches, schema=SCHEMA).unify_dictionaries()
