"""Training of MLPs on a CPU: on their weights, or for each client where it is faster on coefficients (`gram`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.architecture import Shape
from asyncfl.learning.block_noise import Block, blocks_of
from asyncfl.learning.dense import PLANS, BatchBuffers, Stack, mean_loss, padded
from asyncfl.learning.gemm import products
from asyncfl.learning.gram import GramTrainer, cost
from asyncfl.learning.job import Job
from asyncfl.learning.layout import Vector
from asyncfl.learning.learner import Learner
from asyncfl.learning.loss import is_regression
from asyncfl.learning.models.mlp import Layered
from asyncfl.learning.normal_noise import StandardNormal
from asyncfl.learning.tensors import tensor_of, tensors_of
from asyncfl.learning.training import Training

if TYPE_CHECKING:
    import torch

Way = Literal["auto", "direct", "gram"]
_Step = tuple[BatchBuffers, "torch.Tensor", "torch.Tensor", "torch.Tensor"]
"""Buffers, images, logits and targets of a batch."""


class _Plan:
    """Buffers for an epoch on batches of these `sizes`, and their slices for each batch."""

    def __init__(self, stack: Stack, sizes: Sequence[int], blocks: Sequence[Block] = ()) -> None:
        import torch

        inputs, outputs = stack.widths[0], stack.widths[-1]
        samples = sum(sizes)
        self.images = torch.zeros(samples, padded(inputs))
        self.images[:, inputs] = 1
        self.targets = torch.empty(samples, outputs)
        self.logits = torch.empty(samples, outputs)
        cuts = [slice(stop - size, stop) for size, stop in zip(sizes, accumulate(sizes), strict=True)]
        steps = [(stack.batch(c.stop - c.start), self.images[c], self.logits[c], self.targets[c]) for c in cuts]
        self.normals = max((block.normals(stack) for block in blocks), default=0)
        self.blocks: list[tuple[Block | None, torch.Tensor, list[_Step]]] = []
        for block in blocks or (None,):
            taken = len(steps) if block is None else len(block.batches)
            later = self.images[cuts[0].stop : cuts[taken - 1].stop]
            self.blocks.append((block, later, steps[:taken]))
            steps, cuts = steps[taken:], cuts[taken:]


def _sizes(samples: int, n: int) -> list[int]:
    """Return the sizes of the batches that `samples` samples are cut into, `n` to a full one."""
    return [min(n, samples - start) for start in range(0, samples, n)]


class DirectTrainer:
    """Trains an MLP of the given widths, step by step on all its weights: for clients with many samples and few epochs.

    An epoch's images are gathered once, in their order and with a column of ones, so that each batch is a slice.
    """

    def __init__(self, widths: tuple[int, ...], training: Training, gemm: str, dropout: float = 0.0) -> None:
        self._stack = Stack(widths, training, own_input=False, gemm=gemm, dropout=dropout)
        self._drops = dropout > 0
        # Usually all clients have one size; under quantity skew there are many sizes, and plans take memory.
        self._plan = lru_cache(PLANS)(self._shuffled)
        self._incomplete = lru_cache(PLANS)(lambda samples, n: _Plan(self._stack, _sizes(samples, n)))
        self._training = training

    def _shuffled(self, samples: int) -> _Plan:
        """Return the plan of shuffled batches of `samples` samples."""
        sizes = _sizes(samples, self._training.batch_of(samples))
        return _Plan(self._stack, sizes, blocks_of(self._training, self._stack.widths, samples))

    def train(
        self,
        row: torch.Tensor,
        base: torch.Tensor,
        images: torch.Tensor,
        wanted: torch.Tensor,
        order: torch.Tensor | Sequence[torch.Tensor] | Sequence[Sequence[NDArray[np.int64]]],
        squared: bool,
        job: Job,
    ) -> float:
        """Train one client, write the model into `row` and return the mean loss of the last epoch.

        row, base: (n_parameters,); images (m, inputs); wanted (m, outputs): one-hot labels, or numbers to predict if
        the loss is `squared`; order: (epochs, m) int64, of which the last epoch may be shorter, or the Poisson batches
        of each epoch; job: what else training depends on.
        """
        import torch

        stack, poisson = self._stack, self._training.batches == "poisson"
        bits, deadline, state = job.noise if self._training.example_noise else None, job.deadline, job.optimizer
        correction = None if job.correction is None else tensor_of(job.correction)
        stack.expected = self._training.batch_of(len(images)) if poisson else None
        plan = _Plan(stack, (0,)) if poisson else self._plan(len(images))
        each = None if bits is None else StandardNormal(bits, len(base))
        together = None if bits is None or not plan.normals else StandardNormal(bits, plan.normals)
        stack.start(base, squared, state)
        if self._drops:
            stack.random.manual_seed(job.seed)
        planned = self._training.steps_of(len(images))
        rates = iter(() if stack.optimizer is None else self._training.rates(planned, job.rate))
        loss = math.nan
        for epoch, indices in enumerate(order, 1):
            if not isinstance(indices, torch.Tensor):
                plan, indices = _Plan(stack, [len(one) for one in indices]), torch.from_numpy(np.concatenate(indices))
            elif len(indices) < len(images):
                plan = self._incomplete(len(indices), self._training.batch_of(len(images)))
            inner = plan.images[:, : stack.widths[0]]
            torch.index_select(images, 0, indices, out=inner)
            torch.index_select(wanted, 0, indices, out=plan.targets)
            for block, later, steps in plan.blocks:
                drawn = None
                if block is not None and together is not None:
                    drawn = block.draw(stack, later, torch.from_numpy(together.draw()))
                for number, (batch, x, logits, targets) in enumerate(steps):
                    shift = None if drawn is None else drawn.shifts[number]
                    stack.differentiate(batch, x, logits, targets, shift=shift)
                    if stack.optimizer is not None:
                        normals = None if each is None else torch.from_numpy(each.draw())
                        stack.descend(batch, x, next(rates), normals, correction)
                        if deadline is not None and deadline.passed():
                            return loss
                        continue
                    share = stack.step(batch, x)
                    if drawn is not None and block is not None:
                        stack.add_block_noise(drawn.total, block.parts[number], drawn.upper[number], share)
                    elif each is not None:
                        stack.add_noise(torch.from_numpy(each.draw()), share)
                    if correction is not None:
                        stack.add_constant(correction)
                    if deadline is not None and deadline.passed():
                        return loss
            if deadline is not None:
                deadline.epochs_done += 1
            if deadline is not None or epoch == len(order):
                stack.weights.store(row)
                if state is not None:
                    stack.keep(state)
                loss = mean_loss(plan.logits, plan.targets, squared)
        return loss


class MlpLearner(Learner):
    """Training with a hand-written backward pass.

    `way` chooses the representation of the first layer during training: "direct" (its weights) or "gram" (coefficients
    of the client's samples); "auto" takes the cheaper one for each client. It is always "direct" without a hidden
    layer, with noise on the steps, since noise leaves the span of the samples (`block_noise`), with steps other than
    basic ones, and with dropout.
    """

    def __init__(self, model: Layered, training: Training, shape: Shape, outputs: int, way: Way = "auto") -> None:
        import torch

        super().__init__(model, training, shape, outputs, "cpu")
        self._widths = model.widths(shape, outputs)
        is_special = not training.is_basic or model.dropout_share > 0
        stepwise = training.example_noise or training.batches == "poisson"
        self._way = "direct" if len(self._widths) < 3 or stepwise or is_special else way
        self._direct = DirectTrainer(self._widths, self.training, self.gemm, model.dropout_share)
        self._gram = GramTrainer(self._widths, self.training, self.gemm) if self._way != "direct" else None
        self.trainer = lru_cache(PLANS)(self._trainer_for)
        self._clips = training.gradient_clip is not None or training.example_clip is not None
        self._loaded: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._activations = [torch.empty(self.chunk, w) for w in self._widths[1:]]

    def _trainer_for(self, samples: int) -> DirectTrainer | GramTrainer:
        """Return the implementation that trains a client with `samples` samples."""
        if self._gram is None:
            return self._direct
        if self._way == "gram":
            return self._gram
        gram, direct = cost(self._widths, self.training, samples)
        return self._gram if gram < direct else self._direct

    def _train(self, rows: Vector, jobs: Sequence[Job], losses: NDArray[np.float64]) -> None:
        import torch

        with torch.inference_mode(), products(self.gemm, small=True):
            for number, job in enumerate(jobs):
                squared, samples = is_regression(job.labels), len(job.labels)
                base, images, wanted = tensors_of(job.base, job.images.reshape(samples, -1), job.labels)
                wanted = wanted if squared else self._one_hot(wanted)
                order: Any = job.order
                if isinstance(order, np.ndarray):
                    order = tensor_of(np.ascontiguousarray(order, np.int64))
                elif self.training.batches != "poisson":
                    order = [tensor_of(np.ascontiguousarray(one, np.int64)) for one in order]
                arrays = torch.from_numpy(rows[number]), base, images, wanted, order
                # Only the direct implementation has a complete model at the end of each epoch, and only there does a
                # sample whose products overflow leave the others alone. A correction leaves the span of the samples.
                direct = job.deadline is not None or job.correction is not None or isinstance(order, list)
                alone = direct or (self._clips and not math.isfinite(np.vdot(job.images, job.images)))
                trainer = self._direct if alone else self.trainer(samples)
                if isinstance(trainer, DirectTrainer):
                    losses[number] = trainer.train(*arrays, squared, job)
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
