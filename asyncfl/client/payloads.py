"""What comes of tasks: each when it was trained, and all of a collection as they are uploaded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.client.assignment import Assignment
from asyncfl.messages import Vector
from asyncfl.privacy import Contribution
from asyncfl.privacy.upload_records import Upload


@dataclass(frozen=True)
class TrainedTask:
    """A task that was trained as soon as its time had come, before anybody asked for its update."""

    assignment: Assignment
    row: Vector
    """(n_parameters,) the model, neither clipped nor noised."""
    loss: float
    norm: float
    contribution: Contribution
    attacked: bool


@dataclass(frozen=True)
class Payloads:
    """What the clients of some tasks upload. Rows follow the assignments."""

    models: Vector
    """(n, n_parameters) float32 as uploaded; read-only, valid until the next tasks are carried out."""
    uploads: tuple[Upload, ...]
    """The record of each."""
    norms: NDArray[np.float64]
    """(n,) norm (as `Scheme.clip_target` has it) before clipping of what the scheme clips (model or update)."""
    clip_norm: float | None
    """Norm that they were clipped to; None where there was no clipping."""
    asked_std: NDArray[np.float64]
    """(n,) standard deviation of the noise that the scheme asks of everybody, all draws of a task together: attackers
    that add none count as if they did."""
    sound: NDArray[np.bool_]
    """(n,) False where the upload has the wrong length; its row is then without meaning."""
    zeroed: NDArray[np.bool_]
    """(n,) True where an honest client's payload was not finite and became zero before the noise."""
    packed: tuple[bytes, ...] = ()
    """What is sent of each, where updates are compressed."""

    @property
    def losses(self) -> NDArray[np.float64]:
        """(n,) mean training loss of the last local epoch."""
        return np.array([one.loss for one in self.uploads], dtype=np.float64)
