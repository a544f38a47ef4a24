"""The rows of the table of rounds: incomplete rows in memory, all others on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, TypeAlias, overload

import pyarrow as pa

from asyncfl.trace.batch_spool import BatchSpool

Row: TypeAlias = dict[str, Any]
"""A row of the table of rounds."""

PUT_AWAY_AT = 1024
"""Rows kept as objects (two kilobytes each) before they are packed and moved to disk."""


class RoundRows(Sequence[Row]):
    """Rows in the order of their versions. Complete rows must not be changed, except for the last."""

    def __init__(self) -> None:
        self._spool = BatchSpool()
        self._away = 0
        self._complete = 0
        """Complete rows in memory."""
        self._recent: list[Row] = []

    def append(self, row: Row) -> None:
        """Add a row that may be completed later."""
        self._recent.append(row)

    def completed(self) -> None:
        """Mark the first incomplete row as complete."""
        self._complete += 1
        if self._complete > PUT_AWAY_AT:
            self._put_away(self._complete - 1)

    def _put_away(self, number: int) -> None:
        # Another thread may append rows meanwhile.
        for _, alike in groupby(self._recent[:number], key=_columns):
            self._spool.put(pa.RecordBatch.from_pylist(list(alike)))
        del self._recent[:number]
        self._away += number
        self._complete -= number

    def __len__(self) -> int:
        return self._away + len(self._recent)

    def __iter__(self) -> Iterator[Row]:
        for batch in self._spool.batches():
            yield from batch.to_pylist()
        yield from self._recent

    def __eq__(self, other: object) -> bool:
        """Whether the rows equal those of another sequence, in the same order."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        if isinstance(place, slice):
            return list(self)[place]
        number = range(len(self))[place]
        if number >= self._away:
            return self._recent[number - self._away]
        return next(row for at, row in enumerate(self) if at == number)


def _columns(row: Row) -> tuple[tuple[str, type], ...]:
    """Return the names and types that rows must share to be packed together."""
    return tuple((name, type(value)) for name, value in row.items())
