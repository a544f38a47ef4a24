"""Spool of record batches on disk, until the whole table is needed."""

from __future__ import annotations

import mmap
import tempfile
from typing import IO, Any

import pyarrow as pa

PIECE = 2**15
"""Bytes written at once. Linux maps a file into memory in pieces up to the size in which it was written: a column that
is read must not bring the other columns of its batch along."""


class BatchSpool:
    """Record batches in an unnamed temporary file, which is deleted with the last table that was read from it.

    Where the file cannot be written (a full disk), batches stay in memory.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._ends: list[int] = []
        self._kept: list[pa.RecordBatch] = []

    def __del__(self) -> None:
        """Close the file. Tables that were read keep it open themselves."""
        if self._file is not None:
            self._file.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"batches": self.batches()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        for batch in state["batches"]:
            self.put(batch)

    def put(self, batch: pa.RecordBatch) -> None:
        """Append a batch to the file; once the file could not be written, keep it and all later batches in memory."""
        if self._kept:
            self._kept.append(batch)
            return
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        made, end = sink.getvalue(), self._ends[-1] if self._ends else 0
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="asyncfl-", buffering=0)  # noqa: SIM115  (stays open as long as the spool)
            self._file.seek(end)
            pieces = memoryview(made)
            sizes = [self._file.write(pieces[at : at + PIECE]) for at in range(0, made.size, PIECE)]
            whole = sum(sizes) == made.size
        except OSError:
            whole = False
        if whole:
            self._ends.append(end + made.size)
        else:
            self._kept.append(batch)

    def batches(self) -> list[pa.RecordBatch]:
        """Return all batches so far, in order. Batches on disk are memory-mapped, and read when they are accessed."""
        if not self._ends:
            return list(self._kept)
        assert self._file is not None
        held = pa.py_buffer(mmap.mmap(self._file.fileno(), self._ends[-1], access=mmap.ACCESS_READ))
        found = []
        for begin, end in zip([0, *self._ends], self._ends, strict=False):
            with pa.ipc.open_stream(held.slice(begin, end - begin)) as reader:
                found.append(reader.read_next_batch())
        return [*found, *self._kept]
