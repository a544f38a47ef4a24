"""Personal layers: parameters that stay on each client, are never sent and never averaged.

FedPer (Arivazhagan et al. 2019, arXiv:1912.00818) keeps the last layers personal, FedBN (Li et al. 2021,
arXiv:2102.07623) the normalisation layers. Each client starts with the personal part of the initial model and continues
with its own from task to task, whether or not its updates are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.client_state import ClientState, ClientStates
from asyncfl.learning.job import Job
from asyncfl.learning.layout import ParameterSplit, Vector
from asyncfl.learning.learner import Learner
from asyncfl.learning.tensors import tensor_of

if TYPE_CHECKING:
    import torch


class SharedPartLearner(Learner):
    """Training and evaluation of models given by their shared part, all that the server or an adversary knows.

    `initial` (n_personal,), the personal part of the initial model, fills in the rest.
    """

    def __init__(self, whole: Learner, parameter_split: ParameterSplit, initial: Vector) -> None:
        self.whole = whole
        self.parameter_split = parameter_split
        self.initial = initial
        self.model, self.training, self.shape = whole.model, whole.training, whole.shape
        self.n_outputs, self.device, self.chunk = whole.n_outputs, whole.device, whole.chunk
        self.gemm, self.kernels = whole.gemm, whole.kernels
        self.layout = parameter_split.shared

    def with_learner(self, whole: Learner) -> SharedPartLearner:
        """Return a copy that uses another learner of all parameters."""
        return SharedPartLearner(whole, self.parameter_split, self.initial)

    @property
    def description(self) -> dict[str, Any]:
        return self.whole.description | {"n_parameters": self.n_parameters, "n_personal": len(self.initial)}

    def train_personal(
        self, rows: Vector, jobs: Sequence[Job], personal: Sequence[Vector]
    ) -> tuple[NDArray[np.float64], list[Vector]]:
        """Train jobs whose clients have the personal parts `personal` (n_personal,); return losses as `train` does, and
        the new personal parts."""
        join = self.parameter_split.join
        joined = [replace(job, base=join(job.base, own)) for job, own in zip(jobs, personal, strict=True)]
        # A client that stops before its first epoch ends keeps the model that it started with.
        whole = np.stack([job.base for job in joined])
        losses = self.whole.train(whole, joined)
        rows[...], after = self.parameter_split.split(whole)
        return losses, list(after.copy())

    def scored(self, models: Vector, personal: Vector) -> Vector:
        """Return the models (n, all parameters) that a client with this `personal` part scores when it is sent the
        shared parts `models` (n, n_parameters)."""
        return np.stack([self.parameter_split.join(one, personal) for one in models])

    def slopes(
        self, parameters: Vector, direction: Vector, images: NDArray[np.float32], labels: NDArray[Any]
    ) -> NDArray[np.float64]:
        along = self.parameter_split.join(direction, np.zeros_like(self.initial))
        return self.whole.slopes(self._joined(parameters), along, images, labels)

    def gradient(self, parameters: Vector, images: NDArray[np.float32], labels: NDArray[Any]) -> Vector:
        return self.parameter_split.split(self.whole.gradient(self._joined(parameters), images, labels))[0]

    def _joined(self, shared: Vector) -> Vector:
        return self.parameter_split.join(shared, self.initial)

    def _train(self, rows: Vector, jobs: Sequence[Job], losses: NDArray[np.float64]) -> None:
        losses[...], _ = self.train_personal(rows, jobs, [self.initial] * len(jobs))

    def _load(self, parameters: torch.Tensor) -> None:
        self.whole._load(tensor_of(self._joined(parameters.numpy())))

    def _logits(self, images: torch.Tensor) -> torch.Tensor:
        return self.whole._logits(images)


PERSONAL = "personal_layers"
"""Name of a client's personal part (n_personal,) in its state."""


class PersonalLayers:
    """Personal parts of all clients of one seed, updated by each training. They are entries of the clients' states."""

    def __init__(self, learner: SharedPartLearner, states: ClientStates) -> None:
        self.learner = learner
        self.states = states

    def of(self, client: int) -> Vector:
        """Return the personal part of a client; before its first task that of the initial model."""
        return self.part_of(self.states.of(client))

    def part_of(self, state: ClientState) -> Vector:
        """Return the personal part in a client's state; that of the initial model if it has none."""
        return state.arrays.get(PERSONAL, self.learner.initial)

    def copy(self) -> PersonalLayers:
        """Return a copy that later trainings do not change."""
        return PersonalLayers(self.learner, self.states.copy())

    def whole(self, client: int, shared: Vector) -> Vector:
        """Return the whole model (n_parameters,) of a client: the shared part and its own."""
        return self.learner.parameter_split.join(shared, self.of(client))

    def train(self, rows: Vector, jobs: Sequence[Job], clients: Sequence[int]) -> NDArray[np.float64]:
        """Train jobs of distinct clients, write the shared models into `rows`, store the personal parts and return the
        losses."""
        losses, after = self.learner.train_personal(rows, jobs, [self.of(client) for client in clients])
        for client, part in zip(clients, after, strict=True):
            self.states.set_array(client, PERSONAL, part)
        return losses

    def stacked(self, clients: int) -> Vector:
        """Return the personal parts (clients, n_personal) of all clients."""
        return np.stack([self.of(client) for client in range(clients)])
