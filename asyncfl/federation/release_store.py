"""Store of a seed's uploads and published models as they are released: the latest in memory, the others on disk."""

from __future__ import annotations

from collections.abc import Iterable

from asyncfl.federation.release_columns import models_packed, uploads_packed
from asyncfl.federation.release_tables import ModelRecords, UploadRecords
from asyncfl.privacy.upload_records import ModelRelease, Upload
from asyncfl.trace.batch_spool import BatchSpool

PUT_AWAY_AT = 4096
"""Uploads kept as objects (half a kilobyte each) before they are packed and moved to disk."""


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
            self._spool.put(uploads_packed(settled))
            self._is_away.extend(bytes(max(0, max(one.task for one in settled) + 1 - len(self._is_away))))
        for one in settled:
            del self._uploads[one.task]
            self._is_away[one.task] = 1
        if self._models:
            self._model_spool.put(models_packed(tuple(self._models.values())))
            self._models = {}
