"""Records of one seed for privacy accounting, written when the event happens: uploads and published models."""

from __future__ import annotations

from dataclasses import dataclass, replace

from asyncfl.privacy.release import Contribution, Release


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload at the end of a task, or the upload that a trained but never collected task would have made."""

    task: int  # task number
    base_version: int  # model version that the task started from
    contribution: Contribution  # client, inputs of the noise, and the weight in the model that the upload entered
    release: Release  # the upload as accountants see it: noise and sensitivity
    clip_norm: float | None  # norm that the upload was clipped to; None: no clipping
    loss: float | None  # mean training loss of the last local epoch; None: not reported
    attacked: bool  # whether the client attacked in this task
    added_std: float  # standard deviation of the noise added to each parameter after training
    copy_of: int | None = None  # task whose noised update this upload copies before adding its own noise; None: no copy
    computed_from: tuple[int, ...] = ()  # tasks of other clients that this upload was computed from in any other way

    @property
    def client(self) -> int:
        return self.contribution.client

    @property
    def turn(self) -> int:
        return self.contribution.turn

    @property
    def weight(self) -> float | None:
        """Weight in the aggregation, server learning rate included; None: the upload entered no published model."""
        return self.contribution.weight

    def with_weight(self, weight: float) -> Upload:
        """Return this upload with a `weight` in a model, server learning rate included."""
        return replace(self, contribution=replace(self.contribution, weight=weight))


@dataclass(frozen=True, slots=True)
class ModelRelease:
    """A published model that aggregated at least one update."""

    version: int
    uploads: tuple[Upload, ...]  # the aggregated updates, at least one, each with its weight
    clip_norm: float | None  # norm that the updates were clipped to; None: no clipping
    server_std: float  # standard deviation of the server's noise on each parameter

    @property
    def contributions(self) -> tuple[Contribution, ...]:
        """(n_uploads,) contributions of the aggregated updates."""
        return tuple(one.contribution for one in self.uploads)
