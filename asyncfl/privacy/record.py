"""What happened in one seed, written once where it happens: each upload, and each model that was published.

Ledger, budgets, tables and audits read these records; nothing of them is rebuilt from the trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from asyncfl.privacy.context import Contribution
from asyncfl.privacy.release import Release


@dataclass(frozen=True, slots=True)
class Upload:
    """What a client sent at the end of one task, or would have sent: of a task that was trained and never collected."""

    task: int
    base_version: int
    """Version that it was trained from."""
    contribution: Contribution
    """Whose it is, what its noise depends on, and what it weighs in the model that it entered."""
    release: Release
    """What it is to an accountant: the noise on it, and what that hides."""
    clip_norm: float | None
    """Norm that it was clipped to; None where there was no clipping."""
    loss: float | None
    """Mean training loss of the last local epoch; None: nobody was told."""
    attacked: bool
    """Whether the task was an attack."""
    added_std: float
    """Standard deviation of the noise on each parameter that was added when the training was over."""
    copy_of: int | None = None
    """Task whose update it is a copy of, with that one's noise, before noise of its own; None: of none."""
    computed_from: tuple[int, ...] = ()
    """Tasks of others whose updates, as they were sent, it was computed from otherwise."""

    @property
    def client(self) -> int:
        """Number of the client."""
        return self.contribution.client

    @property
    def turn(self) -> int:
        """Tasks that the client was given before."""
        return self.contribution.turn

    @property
    def weight(self) -> float | None:
        """What the server multiplied it with, its rate included; None: it entered no published model."""
        return self.contribution.weight

    def weighing(self, weight: float) -> Upload:
        """This upload in a model where it was multiplied with `weight`, the server's rate included."""
        return replace(self, contribution=replace(self.contribution, weight=weight))


@dataclass(frozen=True, slots=True)
class ModelRelease:
    """A published model that updates entered."""

    version: int
    uploads: tuple[Upload, ...]
    """The updates that were aggregated into it, at least one, each with its weight."""
    clip_norm: float | None
    """Norm that they were clipped to."""
    server_std: float
    """Standard deviation of the noise on each parameter that the server added."""

    @property
    def contributions(self) -> tuple[Contribution, ...]:
        """(n_uploads,) what each of them brought."""
        return tuple(one.contribution for one in self.uploads)


class Record:
    """The uploads and published models of one seed, as they happen."""

    def __init__(self) -> None:
        self._uploads: dict[int, Upload] = {}
        self.models: dict[int, ModelRelease] = {}
        """Version -> what was published; without version 0, and without versions that no update entered."""
        self.newest: tuple[Upload, ...] = ()
        """The uploads that were collected last."""

    @property
    def uploads(self) -> tuple[Upload, ...]:
        """All of them, in the order in which they were collected, or dropped."""
        return tuple(self._uploads.values())

    def collected(self, uploads: Iterable[Upload]) -> None:
        """The server has collected these uploads together."""
        self.newest = tuple(uploads)
        self._uploads.update((one.task, one) for one in self.newest)

    def dropped(self, upload: Upload) -> None:
        """A task was trained whose update nobody will collect."""
        self._uploads[upload.task] = upload

    def upload(self, task: int) -> Upload | None:
        """The upload of that task; None: it was not made here."""
        return self._uploads.get(task)

    def published(self, model: ModelRelease) -> None:
        """That model is out: what its uploads weigh is settled."""
        self.models[model.version] = model
        self._uploads.update((one.task, one) for one in model.uploads)
