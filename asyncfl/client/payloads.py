"""Results of tasks: a single trained task, and the uploads of a collection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.client.assignment import Assignment
from asyncfl.privacy import Contribution
from asyncfl.privacy.upload_records import Upload


@dataclass(frozen=True)
class TrainedTask:
    """A task that was trained before its update was collected."""

    assignment: Assignment
    row: Vector
    """(n_parameters,) the model, neither clipped nor noised."""
    loss: float
    norm: float
    contribution: Contribution
    attacked: bool


@dataclass(frozen=True)
class Payloads:
    """Uploads of some tasks. Rows follow the assignments."""

    models: Vector
    """(n, n_parameters) float32 as uploaded; read-only, valid until the next collection."""
    uploads: tuple[Upload, ...]
    """The record of each upload."""
    norms: NDArray[np.float64]
    """(n,) norm before clipping of the vector that the scheme clips (model or update, see `Scheme.clip_target`)."""
    clip_norm: float | None
    """Clipping norm; None without clipping."""
    asked_std: NDArray[np.float64]
    """(n,) standard deviation of the noise that the scheme asks for, all draws of a task together. Attackers that add
    no noise are included as if they did."""
    sound: NDArray[np.bool_]
    """(n,) False if the upload has the wrong length; its row is then meaningless."""
    zeroed: NDArray[np.bool_]
    """(n,) True if an honest client's payload was not finite and was replaced by zero before the noise."""
    packed: tuple[bytes, ...] = ()
    """Bytes sent for each upload, with compression."""

    @property
    def losses(self) -> NDArray[np.float64]:
        """(n,) mean training loss of the last local epoch."""
        return np.array([one.loss for one in self.uploads], dtype=np.float64)
