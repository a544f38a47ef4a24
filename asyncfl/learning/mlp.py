"""Training of MLPs on a CPU: chooses for each client between the implementations of `direct` and `gram`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.architecture import Shape
from asyncfl.learning.direct import DirectTrainer
from asyncfl.learning.gemm import small_products
from asyncfl.learning.gram import GramTrainer, cost
from asyncfl.learning.job import Job
from asyncfl.learning.learner import Learner, tensor_of
from asyncfl.learning.loss import is_regression
from asyncfl.learning.models import Linear, Mlp
from asyncfl.learning.training import Training

if TYPE_CHECKING:
    import torch

Way = Literal["auto", "direct", "gram"]


class MlpLearner(Learner):
    """Training with a hand-written backward pass.

    `way` chooses the representation of the first layer during training: "direct" (its weights) or "gram" (coefficients
    of the client's samples); "auto" takes the cheaper one for each client. Without a hidden layer it is always
    "direct", and also with noise on the steps, since noise leaves the span of the samples.
    """

    def __init__(
        self,
        model: Mlp | Linear,
        training: Training,
        shape: Shape,
        outputs: int,
        device: str = "cpu",
        way: Way = "auto",
    ) -> None:
        import torch

        super().__init__(model, training, shape, outputs, device)
        self._widths = model.widths(shape, outputs)
        self._way = "direct" if len(self._widths) < 3 or training.example_noise else way
        self._direct = DirectTrainer(self._widths, self.training)
        self._gram = GramTrainer(self._widths, self.training) if self._way != "direct" else None
        self._clips = training.gradient_clip is not None or training.example_clip is not None
        self._loaded: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._activations = [torch.empty(self.chunk, w) for w in self._widths[1:]]

    def trainer(self, samples: int) -> DirectTrainer | GramTrainer:
        """Return the implementation that trains a client with `samples` samples."""
        if self._gram is None:
            return self._direct
        if self._way == "gram":
            return self._gram
        gram, direct = cost(self._widths, self.training, samples)
        return self._gram if gram < direct else self._direct

    def _train(self, rows: NDArray[np.float32], jobs: Sequence[Job], losses: NDArray[np.float64]) -> None:
        import torch

        with torch.inference_mode():
            for number, job in enumerate(jobs):
                squared = is_regression(job.labels)
                wanted = tensor_of(job.labels)
                arrays = (
                    tensor_of(rows[number]),
                    tensor_of(job.base),
                    tensor_of(job.images.reshape(job.samples, -1)),
                    wanted if squared else self._one_hot(wanted),
                    tensor_of(np.ascontiguousarray(job.order, np.int64)),
                )
                # Only the direct implementation has a complete model at the end of each epoch, and only there does a
                # sample whose products overflow leave the others alone.
                alone = job.deadline is not None or (self._clips and not math.isfinite(np.vdot(job.images, job.images)))
                trainer = self._direct if alone else self.trainer(job.samples)
                with small_products(self.gemm, trainer.multiplies_little(job.samples)):
                    if isinstance(trainer, DirectTrainer):
                        losses[number] = trainer.train(*arrays, self._step_noise(job), squared, job.deadline)
                    else:
                        losses[number] = trainer.train(*arrays, squared)

    def _one_hot(self, labels: torch.Tensor) -> torch.Tensor:
        import torch

        return torch.zeros(len(labels), self.n_outputs).scatter_(1, labels.unsqueeze(1), 1)

    def _load(self, parameters: torch.Tensor) -> None:
        self._loaded = []
        for layer in self.layout.layers:
            weight = parameters[layer.start : layer.bias_start].view(layer.weight_shape)
            self._loaded.append((weight.T, parameters[layer.bias_start : layer.stop]))

    def _logits(self, images: torch.Tensor) -> torch.Tensor:
        import torch

        x = images.reshape(len(images), -1)
        for number, (weight, bias) in enumerate(self._loaded):
            if number:
                x.clamp_min_(0)
            x = torch.addmm(bias, x, weight, out=self._activations[number][: len(x)])
        return x
