"""The record of a seed's uploads and published models, as they happen: memory holds the latest, disk all others."""

from __future__ import annotations

from collections.abc import Iterable

from asyncfl.federation.release_columns import models_packed, uploads_packed
from asyncfl.federation.release_tables import ModelRecords, UploadRecords
from asyncfl.privacy.upload_records import ModelRelease, Upload
from asyncfl.trace.batch_spool import BatchSpool

PUT_AWAY_AT = 4096
"""Uploads that are kept as objects, half a kilobyte each, before they are packed and put on disk."""


class ReleaseStore:
    """The uploads and published models of one seed, as they happen."""

    def __init__(self) -> None:
        self.newest: tuple[Upload, ...] = ()
        """The uploads that were collected last."""
        self._uploads: dict[int, Upload] = {}
        self._models: dict[int, ModelRelease] = {}
        self._shelf, self._models_shelf = BatchSpool(), BatchSpool()
        self._is_away = bytearray()
        """Task -> 1: its upload is on the shelf."""

    @property
    def uploads(self) -> UploadRecords:
        """All of them, in the order in which they were collected, or dropped."""
        return UploadRecords.of(tuple(self._uploads.values()), self._shelf.batches())

    @property
    def models(self) -> ModelRecords:
        """Version -> what was published; without version 0, and without versions that no update entered."""
        return ModelRecords.of(tuple(self._models.values()), self.uploads, self._models_shelf.batches())

    def collected(self, uploads: Iterable[Upload]) -> None:
        """The server has collected these uploads together."""
        self.newest = tuple(uploads)
        self._uploads.update((one.task, one) for one in self.newest)

    def dropped(self, upload: Upload) -> None:
        """A task was trained whose update nobody will collect."""
        self._uploads[upload.task] = upload

    def knows(self, task: int) -> bool:
        """Whether the upload of that task is on record."""
        return task in self._uploads or self._away(task)

    def upload(self, task: int) -> Upload | None:
        """The upload of that task; None: it was not made here."""
        if self._away(task):
            return next(one for one in self.uploads if one.task == task)
        return self._uploads.get(task)

    def published(self, model: ModelRelease) -> None:
        """That model is out: what its uploads weigh is settled, as is what all weigh that were collected before.

        Raises ValueError where an upload weighed something in an earlier model, and may have left memory since.
        """
        if away := [one.task for one in model.uploads if self._away(one.task)]:
            raise ValueError(f"what the updates of tasks {away} weigh was settled before version {model.version}")
        if len(self._uploads) >= PUT_AWAY_AT:
            self._put_away({one.task for one in (*self.newest, *model.uploads)})
        self._models[model.version] = model
        self._uploads.update((one.task, one) for one in model.uploads)

    def model(self, version: int) -> ModelRelease | None:
        """The model that came out as that version, as long as it is in memory; None: none is."""
        return self._models.get(version)

    def _away(self, task: int) -> bool:
        return task < len(self._is_away) and bool(self._is_away[task])

    def _put_away(self, but: set[int]) -> None:
        """Put the uploads on disk that came before the first of the tasks in `but`, and all models."""
        settled = []
        for one in self._uploads.values():
            if one.task in but:
                break
            settled.append(one)
        if settled:
            self._shelf.put(uploads_packed(settled))
            self._is_away.extend(bytes(max(0, max(one.task for one in settled) + 1 - len(self._is_away))))
        for one in settled:
            del self._uploads[one.task]
            self._is_away[one.task] = 1
        if self._models:
            self._models_shelf.put(models_packed(tuple(self._models.values())))
            self._models = {}
