"""Parts of a table that wait on disk until all of it is asked for."""

from __future__ import annotations

import mmap
import tempfile
from typing import IO

import pyarrow as pa


class BatchSpool:
    """Record batches in a temporary file without a name, which is gone with the last table that was read from it.

    Where no such file can be written (a full disk), batches are kept in memory.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._ends: list[int] = []
        self._kept: list[pa.RecordBatch] = []

    def __del__(self) -> None:
        """Tables that were read hold the file by themselves."""
        if self._file is not None:
            self._file.close()

    def put(self, batch: pa.RecordBatch) -> None:
        """Add a batch, after those that are there."""
        if self._kept:
            self._kept.append(batch)
            return
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        made, end = sink.getvalue(), self._ends[-1] if self._ends else 0
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="asyncfl-", buffering=0)  # noqa: SIM115  (it lives as long as the run)
            self._file.seek(end)
            whole = self._file.write(made) == made.size
        except OSError:
            whole = False
        if whole:
            self._ends.append(end + made.size)
        else:
            self._kept.append(batch)

    def batches(self) -> list[pa.RecordBatch]:
        """All batches so far, in order; those on disk are read as they are looked at."""
        if not self._ends:
            return list(self._kept)
        assert self._file is not None
        held = pa.py_buffer(mmap.mmap(self._file.fileno(), self._ends[-1], access=mmap.ACCESS_READ))
        found = []
        for begin, end in zip([0, *self._ends], self._ends, strict=False):
            with pa.ipc.open_stream(held.slice(begin, end - begin)) as reader:
                found.append(reader.read_next_batch())
        return [*found, *self._kept]
