"""What happened in one seed, written once where it happens: an upload, and a model that was published.

Ledger, budgets, tables and audits read these records; nothing of them is rebuilt from the trace.
"""

from __future__ import annotations

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

    def with_weight(self, weight: float) -> Upload:
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
