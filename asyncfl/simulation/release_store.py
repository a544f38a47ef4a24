"""Uploads and published models of a seed: the latest as objects in memory, the others as Arrow columns on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.base.component import Described
from asyncfl.base.files.batch_spool import BatchSpool
from asyncfl.base.tables import Column, Count, Number, about, array_of, schema_of
from asyncfl.client import TaskPath
from asyncfl.privacy import Contribution, Release
from asyncfl.privacy.correlation.noise_stream import NoiseStream
from asyncfl.privacy.noise import add_noise
from asyncfl.privacy.release import ModelRelease, Upload
from asyncfl.protocol.aggregation import AggregatedUpdate, AggregationResult

Ints = NDArray[np.int64]

PUT_AWAY_AT = 4096
"""Uploads kept as objects (half a kilobyte each) before they are packed and moved to disk."""

WORD = pa.dictionary(pa.int32(), pa.string())

UPLOADS = pa.schema(
    {
        "task": pa.int64(),
        "base_version": pa.int64(),
        "contribution.client": pa.int64(),
        "contribution.samples": pa.int64(),
        "contribution.turn": pa.int64(),
        "contribution.epsilon": pa.float64(),
        "contribution.weight": pa.float64(),
        "contribution.epochs": pa.int64(),
        "release.distribution": WORD,
        "release.std": pa.float64(),
        "release.sensitivity": pa.float64(),
        "release.count": pa.int64(),
        "release.epsilon": pa.float64(),
        "release.rate": pa.float64(),
        "clip_norm": pa.float64(),
        "loss": pa.float64(),
        "attacked": pa.bool_(),
        "added_std": pa.float64(),
        "copy_of": pa.int64(),
        "computed_from": pa.list_(pa.int64()),
    }
)
"""The fields of `Upload`, of its contribution and of its release, in their order."""


class ModelsTable(Described):
    """One row per published model: the fields of `ModelRelease`, with the tasks of its uploads in place of these."""

    version: Count = about("Number of the version.")
    tasks: Annotated[tuple[int, ...], Column(pa.list_(pa.int64()), "")] = about("Tasks whose uploads it aggregates.")
    clip_norm: Number = about("Norm that the uploads were clipped to; null without clipping.")
    server_std: Number = about("Standard deviation of the server's noise on each parameter, before its correlation.")


MODELS = schema_of(ModelsTable)


def _packed(schema: pa.Schema, records: Sequence[Any], **given: list[Any]) -> pa.RecordBatch:
    columns = (given[one.name] if one.name in given else [*map(attrgetter(one.name), records)] for one in schema)
    arrays = [array_of(one, values) for one, values in zip(schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _packed_models(models: Sequence[ModelRelease]) -> pa.RecordBatch:
    return _packed(MODELS, models, tasks=[[one.task for one in model.uploads] for model in models])


def _values(column: pa.Array) -> list[Any]:
    """Return the same as `column.to_pylist()`, lists as tuples, in a fraction of its time."""
    if pa.types.is_dictionary(column.type):
        words = column.dictionary.to_pylist()
        return [words[place] for place in column.indices.to_numpy().tolist()]
    if pa.types.is_list(column.type):
        return [*map(tuple, column.to_pylist())] if len(column.flatten()) else [()] * len(column)
    if column.null_count == len(column):
        return [None] * len(column)
    return list(column.to_pylist() if column.null_count else column.to_numpy(zero_copy_only=False).tolist())


@dataclass(frozen=True, eq=False)
class UploadRecords(Sequence[Upload]):
    """Sequence of uploads. Each access creates a new `Upload` object."""

    table: pa.Table  # one row per upload, with the columns of `UPLOADS`

    @classmethod
    def of(cls, uploads: Sequence[Upload], before: Iterable[pa.RecordBatch] = ()) -> UploadRecords:
        """Return the batches `before`, followed by `uploads`."""
        return cls(pa.Table.from_batches([*before, _packed(UPLOADS, uploads)], UPLOADS))

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[Upload]:
        for batch in self.table.to_batches():
            for task, base, *further in zip(*map(_values, batch.columns), strict=True):
                contribution, release, own = further[:6], further[6:12], further[12:]
                yield Upload(task, base, Contribution(*contribution), Release(*release), *own)

    @overload
    def __getitem__(self, place: int) -> Upload: ...
    @overload
    def __getitem__(self, place: slice) -> UploadRecords: ...
    def __getitem__(self, place: int | slice) -> Upload | UploadRecords:
        if isinstance(place, slice):
            return self.at(np.arange(len(self))[place])
        [found] = UploadRecords(self.table.slice(range(len(self))[place], 1))
        return found

    def at(self, rows: Ints) -> UploadRecords:
        """Return the uploads in these rows, in their order."""
        return UploadRecords(self.table.take(rows))

    def column(self, name: str) -> NDArray[Any]:
        """Return (n,) a column of `UPLOADS`; missing numbers are NaN."""
        return np.asarray(self.table[name])

    @cached_property
    def rows(self) -> tuple[Ints, Ints]:
        """Two arrays (n,): the tasks, ascending, and the row of each."""
        tasks = self.column("task")
        order = np.argsort(tasks)
        return tasks[order], order

    def rows_of(self, tasks: Ints) -> Ints:
        """Return the (n,) rows of these tasks, all of which must exist."""
        rising, rows = self.rows
        return np.asarray(rows[np.searchsorted(rising, tasks)])


TASK_COLUMNS = {
    "contribution.samples": "samples",
    "contribution.epsilon": "upload_epsilon",
    "contribution.weight": "model_weight",
    "release.distribution": "distribution",
    "release.std": "noise_std",
    "release.sensitivity": "sensitivity",
    "release.count": "draws",
    "release.epsilon": "release_epsilon",
    "release.rate": "sampling_rate",
    "clip_norm": "clip_norm",
    "loss": "train_loss",
    "attacked": "attacked",
    "added_std": "added_std",
    "copy_of": "copy_of",
    "computed_from": "computed_from",
}
"""Column of `UPLOADS` -> column of the table of tasks, see `base.tables.UploadColumns`."""


def with_uploads(tasks: pa.Table, uploads: UploadRecords) -> pa.Table:
    """Return the table of tasks of a seed with the columns of the uploads that were trained."""
    known, rows = uploads.rows
    numbers = tasks["task"].to_numpy()
    places = np.minimum(np.searchsorted(known, numbers), max(len(known) - 1, 0))
    found = known[places] == numbers if len(known) else np.zeros(len(numbers), dtype=bool)
    taken = pa.array(rows[places] if len(known) else np.zeros(len(numbers), dtype=np.int64), pa.int64(), mask=~found)
    for name, column in TASK_COLUMNS.items():
        place = tasks.schema.get_field_index(column)
        values, field = uploads.table[name].take(taken), tasks.schema.field(place)
        if pa.types.is_dictionary(field.type):
            values = values.cast(pa.string()).combine_chunks().dictionary_encode()
        tasks = tasks.set_column(place, field, values.cast(field.type))
    return tasks


@dataclass(frozen=True, eq=False)
class ModelRecords(Mapping[int, ModelRelease]):
    """Mapping version -> published model, without versions made of no update. Each access creates a new object."""

    table: pa.Table  # one row per model, with the columns of `MODELS`; versions ascend
    uploads: UploadRecords  # uploads, including those of all models

    @classmethod
    def of(
        cls, models: Sequence[ModelRelease], uploads: UploadRecords, before: Iterable[pa.RecordBatch] = ()
    ) -> ModelRecords:
        """Return the batches `before`, followed by `models`."""
        return cls(pa.Table.from_batches([*before, _packed_models(models)], MODELS), uploads)

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
        return np.asarray(self.table["version"])

    @property
    def server_std(self) -> NDArray[np.float64]:
        """(n_models,) standard deviation of the server's noise on each parameter."""
        return np.asarray(self.table["server_std"])

    @property
    def entered(self) -> tuple[Ints, Ints, Ints]:
        """Three arrays (n,) about the n aggregated updates: task, version that it entered, number of updates in that
        version."""
        tasks = self.table["tasks"].combine_chunks()
        counts = tasks.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        return tasks.flatten().to_numpy(), np.repeat(self.versions, counts), np.repeat(counts, counts)


class ReleaseStore:
    """The uploads and published models of one seed so far."""

    def __init__(self) -> None:
        self.newest: tuple[Upload, ...] = ()  # the uploads of the last collection
        self._uploads: dict[int, Upload] = {}
        self._models: dict[int, ModelRelease] = {}
        self._spool, self._model_spool = BatchSpool(), BatchSpool()
        self._is_away = bytearray()  # task -> 1 if its upload is on disk

    @property
    def uploads(self) -> UploadRecords:
        """All uploads, in the order in which they were collected or dropped."""
        return UploadRecords.of(tuple(self._uploads.values()), self._spool.batches())

    @property
    def models(self) -> ModelRecords:
        """Version -> published model; without version 0, and without versions made of no update."""
        return ModelRecords.of(tuple(self._models.values()), self.uploads, self._model_spool.batches())

    def collected(self, uploads: Iterable[Upload]) -> None:
        """Add the uploads of a collection."""
        self.newest = tuple(uploads)
        self._uploads.update((one.task, one) for one in self.newest)

    def dropped(self, upload: Upload) -> None:
        """Add the upload of a trained task that is not collected."""
        self._uploads[upload.task] = upload

    def knows(self, task: int) -> bool:
        """Whether the upload of that task is stored."""
        return task in self._uploads or self._away(task)

    def upload(self, task: int) -> Upload | None:
        """Return the upload of that task; None if none is stored."""
        if self._away(task):
            return next(one for one in self.uploads if one.task == task)
        return self._uploads.get(task)

    def published(self, model: ModelRelease) -> None:
        """Add a published model. This settles the weights of its uploads, and of all collected before.

        Raises: ValueError if an upload had a weight in an earlier model and may have left memory since.
        """
        if away := [one.task for one in model.uploads if self._away(one.task)]:
            raise ValueError(f"the weights of the updates of tasks {away} were settled before version {model.version}")
        if len(self._uploads) >= PUT_AWAY_AT:
            self._put_away({one.task for one in (*self.newest, *model.uploads)})
        self._models[model.version] = model
        self._uploads.update((one.task, one) for one in model.uploads)

    def model(self, version: int) -> ModelRelease | None:
        """Return the model published as that version; None if it is not in memory."""
        return self._models.get(version)

    def _away(self, task: int) -> bool:
        return task < len(self._is_away) and bool(self._is_away[task])

    def _put_away(self, but: set[int]) -> None:
        """Move to disk all models, and the uploads before the first of the tasks in `but`."""
        settled = []
        for one in self._uploads.values():
            if one.task in but:
                break
            settled.append(one)
        if settled:
            self._spool.put(_packed(UPLOADS, settled))
            self._is_away.extend(bytes(max(0, max(one.task for one in settled) + 1 - len(self._is_away))))
        for one in settled:
            del self._uploads[one.task]
            self._is_away[one.task] = 1
        if self._models:
            self._model_spool.put(_packed_models(tuple(self._models.values())))
            self._models = {}


@dataclass(frozen=True)
class RecordedServerNoise:
    """Adds the server's noise to each model that was made of updates, and records the release."""

    path: TaskPath
    record: ReleaseStore
    stream: NoiseStream | None = None  # noise that is correlated over versions; None: it is independent

    def __call__(self, made: AggregationResult, version: int) -> tuple[Vector, float]:
        """Add the scheme's server noise to `made.model` in place, and record the release.

        Returns the model and the standard deviation of the noise on each parameter.
        """
        path = self.path
        uploads = tuple(self._upload(one, made.clip_norm) for one in made.updates)
        noise = path.scheme.model_noise(path.context, made.clip_norm, [one.contribution for one in uploads])
        std = noise.std
        if self.stream is not None:
            std = self.stream.add(made.model, noise.std, version)
        else:
            add_noise(noise.distribution, made.model, noise.std, path.streams, "server_noise", number=version)
        self.record.published(ModelRelease(version, uploads, made.clip_norm, noise.std))
        return made.model, std

    def _upload(self, one: AggregatedUpdate, clip_norm: float | None) -> Upload:
        task = one.task
        upload = self.record.upload(task.number)
        if upload is None:  # in a replay nothing was trained
            upload = self.path.untrained(task.number, task.client, task.base_version, clip_norm)
        weighed = replace(upload.contribution, weight=self.path.context.rate * one.weight)
        return replace(upload, contribution=weighed)
