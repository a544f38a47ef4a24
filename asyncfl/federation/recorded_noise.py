"""The server's noise on a model before publication, and the record of the release."""

from __future__ import annotations

from dataclasses import dataclass

from asyncfl.base.messages import Vector
from asyncfl.client import TaskPath
from asyncfl.federation.release_store import ReleaseStore
from asyncfl.privacy.noise import add_noise
from asyncfl.privacy.upload_records import ModelRelease, Upload
from asyncfl.server.aggregation import AggregatedUpdate, AggregationResult


@dataclass(frozen=True)
class RecordedServerNoise:
    """Adds the server's noise to each model that was made of updates, and records the release."""

    path: TaskPath
    record: ReleaseStore

    def __call__(self, made: AggregationResult, version: int) -> tuple[Vector, float]:
        """Add the scheme's server noise to `made.model` in place, and record the release.

        Returns the model and the standard deviation of the noise on each parameter.
        """
        path = self.path
        uploads = tuple(self._upload(one, made.clip_norm) for one in made.updates)
        noise = path.scheme.model_noise(path.context, made.clip_norm, [one.contribution for one in uploads])
        add_noise(noise.distribution, made.model, noise.std, path.streams, "server_noise", number=version)
        self.record.published(ModelRelease(version, uploads, made.clip_norm, noise.std))
        return made.model, noise.std

    def _upload(self, one: AggregatedUpdate, clip_norm: float | None) -> Upload:
        """Return the record of the update with its weight."""
        task = one.task
        upload = self.record.upload(task.number)
        if upload is None:
            upload = self.path.untrained(task.number, task.client, task.base_version, clip_norm)
        return upload.with_weight(self.path.context.rate * one.weight)
