"""Personal models: each client trains a whole model of its own beside the one that it sends (Ditto, Li et al. 2021).

A personal model is handled like personal layers (`PersonalLayers`) that are the whole network: it is an entry of its
client's state, trained with each task, and evaluated in place of the published model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.job import Job
from asyncfl.learning.layout import ParameterSplit, Vector
from asyncfl.learning.learner import Learner
from asyncfl.learning.personal_layers import SharedPartLearner
from asyncfl.learning.tensors import tensor_of

if TYPE_CHECKING:
    import torch


class WholeSplit(ParameterSplit):
    """A network of which all parameters are sent, and all are personal, too."""

    def join(self, shared: Vector, personal: Vector) -> Vector:
        """Return the personal model (n_parameters,)."""
        return personal


class PersonalModelLearner(SharedPartLearner):
    """Training of the model that is sent, and then of the client's own.

    A client's model v starts at the initial one. With w, the model that was sent, it is trained in each task by
    gradients of loss(v) + pull / 2 |v - w|^2, on the same batches as w and without the noise of DP-SGD: it is not sent.
    """

    def __init__(self, whole: Learner, own: Callable[[], Learner], initial: Vector) -> None:
        """`own`: makes learners whose proximal term has the strength `pull`."""
        super().__init__(whole, WholeSplit(whole.layout, ()), initial)
        self._make, self._own = own, own()

    def with_learner(self, whole: Learner) -> PersonalModelLearner:
        return PersonalModelLearner(whole, self._make, self.initial)

    def train_personal(
        self, rows: Vector, jobs: Sequence[Job], personal: Sequence[Vector]
    ) -> tuple[NDArray[np.float64], list[Vector]]:
        losses, after = self.whole.train(rows, jobs), np.empty_like(rows)
        # A proximal term pulls to the start of a training, v: the constant moves its centre to w.
        pull = np.float32(self._own.training.proximal_mu)
        own = [
            # A fresh optimiser: the kept one is that of the common model.
            replace(job, base=of, correction=pull * (of - job.base), noise=None, deadline=None, optimizer=None)
            for job, of in zip(jobs, personal, strict=True)
        ]
        self._own.train(after, own)
        return losses, list(after)

    def scored(self, models: Vector, personal: Vector) -> Vector:
        return models

    def slopes(
        self, parameters: Vector, direction: Vector, images: NDArray[np.float32], labels: NDArray[Any]
    ) -> NDArray[np.float64]:
        return self.whole.slopes(parameters, direction, images, labels)

    def gradient(self, parameters: Vector, images: NDArray[np.float32], labels: NDArray[Any]) -> Vector:
        return self.whole.gradient(parameters, images, labels)

    def _train(self, rows: Vector, jobs: Sequence[Job], losses: NDArray[np.float64]) -> None:
        losses[...] = self.whole.train(rows, jobs)

    def _load(self, parameters: torch.Tensor) -> None:
        self.whole._load(tensor_of(parameters.numpy()))
