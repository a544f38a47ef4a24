"""Writes events down as they happen, in columns."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

from asyncfl.trace.events import SCHEMA, Kind

Row: TypeAlias = tuple[float, int, int, str, int, int, int, int, int, int, int, float, str]

FLUSH_EVERY = 65_536
"""Rows kept as Python objects before they are packed into an Arrow batch."""

NAN = float("nan")


class Recorder:
    """The events of one seed. Rows are packed as they grow, so that a long run costs some 100 bytes an event."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._rows: list[Row] = []
        self._batches: list[pa.RecordBatch] = []
        self._seq = 0

    def __len__(self) -> int:
        return self._seq

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
        self._rows.append(
            (
                time_s,
                self._seq,
                self.seed,
                kind.value,
                task,
                client,
                version,
                base_version,
                staleness,
                size,
                attempt,
                weight,
                detail,
            )
        )
        self._seq += 1
        if len(self._rows) >= FLUSH_EVERY:
            self._pack()

    def _pack(self) -> None:
        columns = zip(*self._rows, strict=True)
        arrays = [
            pa.array(column, type=field.type.value_type).dictionary_encode().cast(field.type)
            if pa.types.is_dictionary(field.type)
            else pa.array(column, type=field.type)
            for column, field in zip(columns, SCHEMA, strict=True)
        ]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
        self._rows = []

    def table(self) -> pa.Table:
        """All events so far, in the order in which they happened."""
        if self._rows:
            self._pack()
        return pa.Table.from_batches(self._batches, schema=SCHEMA).unify_dictionaries()
