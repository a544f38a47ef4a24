"""Personal layers: parameters that stay at each client, are never sent and never averaged.

FedPer (Arivazhagan et al. 2019, arXiv:1912.00818) keeps the last layers, FedBN (Li et al. 2021, arXiv:2102.07623) the
layers that normalise. What is published, uploaded, attacked, defended, noised and counted in bytes is the shared part
of a model alone, one flat vector as any other. Each client begins with the personal part of the initial model and goes
on with its own, task after task, whatever becomes of its updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.job import Job
from asyncfl.learning.learner import Learner
from asyncfl.learning.parameter_split import ParameterSplit

if TYPE_CHECKING:
    import torch

Vector = NDArray[np.float32]


class SharedPartLearner(Learner):
    """Training and evaluation by the shared part of models, which is all that a server or an adversary knows.

    Whoever has no personal part of their own takes that of the initial model.
    """

    def __init__(self, whole: Learner, parameter_split: ParameterSplit, initial: Vector) -> None:
        """`whole`: of all parameters; `initial`: (n_personal,) the personal part of the initial model."""
        self.whole = whole
        self.parameter_split = parameter_split
        self.initial = initial
        self.model, self.training, self.shape = whole.model, whole.training, whole.shape
        self.n_outputs, self.device, self.gemm, self.chunk = whole.n_outputs, whole.device, whole.gemm, whole.chunk
        self.layout = parameter_split.shared

    def around(self, whole: Learner) -> SharedPartLearner:
        """The same with another learner of all parameters, such as one of another thread."""
        return SharedPartLearner(whole, self.parameter_split, self.initial)

    @property
    def description(self) -> dict[str, Any]:
        """How training ran, for the summary of a run."""
        return self.whole.description | {"n_parameters": self.n_parameters, "n_personal": len(self.initial)}

    def train_personal(
        self, rows: Vector, jobs: Sequence[Job], personal: Sequence[Vector]
    ) -> tuple[NDArray[np.float64], list[Vector]]:
        """Losses as of `train`, and the clients' personal parts (n_personal,) afterwards; `personal`: before."""
        joined = [
            replace(job, base=self.parameter_split.join(job.base, own)) for job, own in zip(jobs, personal, strict=True)
        ]
        # Who is stopped before an epoch is done is left with what it began with.
        whole = np.stack([job.base for job in joined])
        losses = self.whole.train(whole, joined)
        rows[...], after = self.parameter_split.split(whole)
        return losses, list(after.copy())

    def slopes(
        self, parameters: Vector, direction: Vector, images: NDArray[np.float32], labels: NDArray[Any]
    ) -> NDArray[np.float64]:
        """See `Learner.slopes`; the personal part does not move."""
        nothing = np.zeros_like(self.initial)
        return self.whole.slopes(
            self._joined(parameters), self.parameter_split.join(direction, nothing), images, labels
        )

    def gradient(self, parameters: Vector, images: NDArray[np.float32], labels: NDArray[Any]) -> Vector:
        """See `Learner.gradient`, by the shared parameters."""
        shared: Vector = self.parameter_split.split(self.whole.gradient(self._joined(parameters), images, labels))[0]
        return shared

    def _joined(self, shared: Vector) -> Vector:
        return self.parameter_split.join(shared, self.initial)

    def _train(self, rows: Vector, jobs: Sequence[Job], losses: NDArray[np.float64]) -> None:
        losses[...], _ = self.train_personal(rows, jobs, [self.initial] * len(jobs))

    def _load(self, parameters: torch.Tensor) -> None:
        import torch

        self.whole._load(torch.from_numpy(self._joined(parameters.numpy())))

    def _logits(self, images: torch.Tensor) -> torch.Tensor:
        return self.whole._logits(images)


class PersonalLayers:
    """What each client of one seed has made of its personal layers, task after task."""

    def __init__(self, learner: SharedPartLearner) -> None:
        self.learner = learner
        self._own: dict[int, Vector] = {}

    def of(self, client: int) -> Vector:
        """(n_personal,) the part of a client; that of the initial model before its first task."""
        return self._own.get(client, self.learner.initial)

    def put(self, client: int, part: Vector) -> None:
        """Have a client go on with this part (n_personal,)."""
        self._own[client] = part

    def take(self, client: int) -> Vector:
        """The part of a client (n_personal,), which is not kept here any longer."""
        return self._own.pop(client, self.learner.initial)

    def copy(self) -> PersonalLayers:
        """What they are now, whatever clients make of them later."""
        same = PersonalLayers(self.learner)
        same._own = dict(self._own)
        return same

    def whole(self, client: int, shared: Vector) -> Vector:
        """(n_parameters,) the model of a client: the shared part and its own."""
        return self.learner.parameter_split.join(shared, self.of(client))

    def train(self, rows: Vector, jobs: Sequence[Job], clients: Sequence[int]) -> NDArray[np.float64]:
        """Losses of the jobs of these clients, each another; shared models are written into `rows`, parts kept."""
        losses, after = self.learner.train_personal(rows, jobs, [self.of(client) for client in clients])
        self._own.update(zip(clients, after, strict=True))
        return losses

    def stacked(self, clients: int) -> Vector:
        """(clients, n_personal) the parts of all clients."""
        return np.stack([self.of(client) for client in range(clients)])
