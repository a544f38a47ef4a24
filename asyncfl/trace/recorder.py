"""Writes events down as they happen, in columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from asyncfl.trace.batch_spool import BatchSpool
from asyncfl.trace.events import SCHEMA, Kind

FLUSH_EVERY = 65_536
"""Events kept as Python objects before they are packed into an Arrow batch and put on disk."""

GIVEN = tuple(name for name in SCHEMA.names if name not in ("seq", "seed"))
"""Columns that an event brings with it; the recorder knows the other two."""

NAN = float("nan")


class Recorder:
    """The events of one seed, put on disk as they grow, some 100 bytes each, so that a long run's memory does not."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        # One event after another in a single flat list: a tuple for each would keep the garbage collector busy.
        self._values: list[Any] = []
        self._spool = BatchSpool()
        self._packed = 0

    def __len__(self) -> int:
        return self._packed + len(self._values) // len(GIVEN)

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
        """Write down one event; the arguments are the columns of `Event`, `size` its bytes."""
        values = self._values
        values += (time_s, kind, task, client, version, base_version, staleness, size, attempt, weight, detail)
        if len(values) >= FLUSH_EVERY * len(GIVEN):
            batch = self._batch()
            self._spool.put(batch)
            self._packed += len(batch)
            self._values = []

    def _batch(self) -> pa.RecordBatch:
        """The events that are not packed yet."""
        given, events = len(GIVEN), len(self._values) // len(GIVEN)
        made: dict[str, Any] = {name: self._values[place::given] for place, name in enumerate(GIVEN)}
        made["seq"] = np.arange(self._packed, self._packed + events)
        made["seed"] = np.full(events, self.seed)
        arrays = [
            pa.array(made[field.name], type=field.type.value_type).dictionary_encode().cast(field.type)
            if pa.types.is_dictionary(field.type)
            else pa.array(made[field.name], type=field.type)
            for field in SCHEMA
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def table(self) -> pa.Table:
        """All events so far, in the order in which they happened. Nothing of the recorder changes: however often it is
        asked on the way, the last table is the same."""
        batches = [*self._spool.batches(), *([self._batch()] if self._values else [])]
        return pa.Table.from_batches(batches, schema=SCHEMA).unify_dictionaries()
