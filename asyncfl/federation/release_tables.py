"""The uploads and models of a seed, read from columns: most of a long run's are on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.federation.release_columns import MODELS, UPLOADS, models_packed, uploads_of, uploads_packed
from asyncfl.privacy.upload_records import ModelRelease, Upload

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class UploadRecords(Sequence[Upload]):
    """Sequence of uploads. Each access creates a new `Upload` object."""

    table: pa.Table  # one row per upload, with the columns of `release_columns.UPLOADS`

    @classmethod
    def of(cls, uploads: Sequence[Upload], before: Iterable[pa.RecordBatch] = ()) -> UploadRecords:
        """Return the batches `before`, followed by `uploads`."""
        return cls(pa.Table.from_batches([*before, uploads_packed(uploads)], UPLOADS))

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[Upload]:
        for batch in self.table.to_batches():
            yield from uploads_of(batch)

    @overload
    def __getitem__(self, place: int) -> Upload: ...
    @overload
    def __getitem__(self, place: slice) -> UploadRecords: ...
    def __getitem__(self, place: int | slice) -> Upload | UploadRecords:
        if isinstance(place, slice):
            return self.at(np.arange(len(self))[place])
        row = range(len(self))[place]
        [found] = UploadRecords(self.table.slice(row, 1))
        return found

    def at(self, rows: Ints) -> UploadRecords:
        """Return the uploads in these rows, in their order."""
        return UploadRecords(self.table.take(rows))

    def column(self, name: str) -> NDArray[Any]:
        """Return (n,) a column of `release_columns.UPLOADS`; missing numbers are NaN."""
        found: NDArray[Any] = self.table[name].to_numpy()
        return found

    @cached_property
    def rows(self) -> tuple[Ints, Ints]:
        """Two arrays (n,): the tasks, ascending, and the row of each."""
        tasks = self.column("task")
        order = np.argsort(tasks)
        return tasks[order], order

    def rows_of(self, tasks: Ints) -> Ints:
        """Return the (n,) rows of these tasks, all of which must exist."""
        rising, rows = self.rows
        found: Ints = rows[np.searchsorted(rising, tasks)]
        return found


@dataclass(frozen=True, eq=False)
class ModelRecords(Mapping[int, ModelRelease]):
    """Mapping version -> published model, without versions made of no update. Each access creates a new object."""

    table: pa.Table  # one row per model, with the columns of `release_columns.MODELS`; versions ascend
    uploads: UploadRecords  # uploads, including those of all models

    @classmethod
    def of(
        cls, models: Sequence[ModelRelease], uploads: UploadRecords, before: Iterable[pa.RecordBatch] = ()
    ) -> ModelRecords:
        """Return the batches `before`, followed by `models`."""
        return cls(pa.Table.from_batches([*before, models_packed(models)], MODELS), uploads)

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[int]:
        return iter(self.versions.tolist())

    def __getitem__(self, version: int) -> ModelRelease:
        row = int(np.searchsorted(self.versions, version))
        if row == len(self) or self.versions[row] != version:
            raise KeyError(version)
        [found] = self.table.slice(row, 1).to_pylist()
        rows = self.uploads.rows_of(np.array(found["tasks"], dtype=np.int64))
        # Updates of one model were collected together.
        first = int(rows.min())
        near = [*UploadRecords(self.uploads.table.slice(first, int(rows.max()) + 1 - first))]
        entered = tuple(near[row - first] for row in rows.tolist())
        return ModelRelease(version, entered, found["clip_norm"], found["server_std"])

    @cached_property
    def versions(self) -> Ints:
        """(n_models,) versions, ascending."""
        found: Ints = self.table["version"].to_numpy()
        return found

    @property
    def server_std(self) -> NDArray[np.float64]:
        """(n_models,) standard deviation of the server's noise on each parameter."""
        found: NDArray[np.float64] = self.table["server_std"].to_numpy()
        return found

    @property
    def entered(self) -> tuple[Ints, Ints, Ints]:
        """Three arrays (n,) about the n aggregated updates: task, version that it entered, number of updates in that
        version."""
        tasks = self.table["tasks"].combine_chunks()
        counts = tasks.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        return tasks.flatten().to_numpy(), np.repeat(self.versions, counts), np.repeat(counts, counts)
