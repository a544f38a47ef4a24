"""The noise that the server adds to a model before it is published, and the record of it."""

from __future__ import annotations

from dataclasses import dataclass

from asyncfl.client import TaskPath
from asyncfl.federation.release_store import ReleaseStore
from asyncfl.messages import Vector
from asyncfl.privacy.noise.drawing import add_noise
from asyncfl.privacy.upload_records import ModelRelease, Upload
from asyncfl.server.aggregation import AggregatedUpdate, AggregationResult


@dataclass(frozen=True)
class RecordedServerNoise:
    """Called by the server of one seed for each model that updates entered, as it is published."""

    path: TaskPath
    record: ReleaseStore

    def __call__(self, made: AggregationResult, version: int) -> tuple[Vector, float]:
        """The model with the noise that the scheme wants the server to add, and its standard deviation."""
        path = self.path
        uploads = tuple(self._upload(one, made.clip_norm) for one in made.updates)
        noise = path.scheme.model_noise(path.context, made.clip_norm, [one.contribution for one in uploads])
        add_noise(noise.distribution, made.model, noise.std, path.streams, "server_noise", number=version)
        self.record.published(ModelRelease(version, uploads, made.clip_norm, noise.std))
        return made.model, noise.std

    def _upload(self, one: AggregatedUpdate, clip_norm: float | None) -> Upload:
        """The record of the update with its weight; where a recording is replayed nothing was trained here."""
        task = one.task
        upload = self.record.upload(task.number)
        if upload is None:
            upload = self.path.untrained(task.number, task.client, task.base_version, clip_norm)
        return upload.with_weight(self.path.context.rate * one.weight)
