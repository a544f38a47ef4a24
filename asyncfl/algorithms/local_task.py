"""LocalTask: a client's task in torch, for an algorithm that trains by code of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState
from asyncfl.learning.loss import loss_of
from asyncfl.learning.training import Training

if TYPE_CHECKING:
    import torch


@dataclass(eq=False)
class LocalTask:
    """Inputs of one client's training, and what it leaves. torch's global generator is seeded for the task."""

    module: torch.nn.Module
    """The network with the parameters that the client was sent, in training mode; a copy for this task."""
    inputs: torch.Tensor
    """(samples, *shape) float32, poisoned or not."""
    labels: torch.Tensor
    """(samples,) int64 classes; or (samples, outputs) float32 numbers to predict."""
    batches: Sequence[Sequence[torch.Tensor]]
    """Sample numbers of each step, epoch by epoch, as `training.batch_size`, `epochs` and `steps` ask for."""
    rates: Sequence[float]
    """Learning rate of each step, by `training.lr` and the schedules."""
    training: Training
    """All settings of local training; those that the code does not use have no effect."""
    base: Vector
    """(n_parameters,) the model that the client was sent."""
    state: ClientState = field(default_factory=ClientState)
    """The entries `carries` of the client's state."""
    download: Mapping[str, Vector] = field(default_factory=dict)
    """The declared downloads."""
    loss: float = math.nan
    """Mean training loss to report; NaN: that of the trained model on all samples is measured."""
    carried: ClientState = field(default_factory=ClientState)
    """New entries `carries` of the client's state; `after_training` may replace them."""

    def loss_of(self, batch: torch.Tensor) -> torch.Tensor:
        """Compute the mean loss of a batch (sample numbers): cross-entropy, or the squared error of a regression."""
        return loss_of(self.module(self.inputs[batch]), self.labels[batch])

    def update(self) -> Vector:
        """Return the difference (n_parameters,) of the module's parameters from the model that was sent."""
        import torch

        flat = torch.nn.utils.parameters_to_vector(self.module.parameters()).detach().cpu()
        difference: Vector = flat.numpy() - self.base
        return difference
