"""Training of any network, mainly on a CPU: one module in channels_last memory, one client after another, by autograd.

Measurements found vmap, grouped convolutions and unfolding slower here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.architecture import Architecture, Shape, untrained_module
from asyncfl.learning.example_gradients import ExampleGradients, clip_gradient
from asyncfl.learning.job import Job
from asyncfl.learning.kernels import TORCH, resolve_kernels
from asyncfl.learning.layout import Vector
from asyncfl.learning.learner import Learner
from asyncfl.learning.loss import loss_of
from asyncfl.learning.normal_noise import StandardNormal
from asyncfl.learning.optimizer import Optimizer, OptimizerState, slots_of
from asyncfl.learning.seeded import seeded
from asyncfl.learning.tensors import split, tensor_of
from asyncfl.learning.training import Training

if TYPE_CHECKING:
    import torch


class ModuleLearner(Learner):
    """Training by autograd on one reused channels_last module."""

    chunk = 50  # measured: passes of 1000 images are 2.6 times slower, as their activations leave the cache

    def __init__(self, model: Architecture, training: Training, shape: Shape, outputs: int, device: str) -> None:
        import torch

        super().__init__(model, training, shape, outputs, device)
        # Only batches of images (4-dimensional) have channels that can be stored last.
        self._format = torch.channels_last if len(shape) == 3 else torch.contiguous_format
        if device == "cpu" and ":" not in model.kind:
            self.kernels = resolve_kernels(training.kernels)
        module = untrained_module(model, shape, outputs).to(self.device)
        if self.kernels != TORCH:
            from asyncfl.learning.pooled_convolution import with_compiled_blocks

            plain, module = module, with_compiled_blocks(module, self.kernels)
            if module is plain:
                self.kernels = TORCH
        self._module = module.to(memory_format=self._format)  # type: ignore[call-overload]
        self._weights: list[torch.Tensor] = list(self._module.parameters())
        self._module.train(not model.draws)  # dropout would hide whether gradients agree
        clips = self.training.example_clip is not None
        self._examples = ExampleGradients(self._module, shape, outputs) if clips else None
        self._velocity = [torch.zeros_like(w) for w in self._weights]
        self._pull = [torch.zeros_like(w) for w in self._weights]
        self._optimizer: Optimizer | None = None
        """Rule of steps other than basic ones; None: basic steps."""
        if not training.is_basic:
            slots = {name: [torch.zeros_like(w) for w in self._weights] for name in slots_of(training)}
            self._optimizer = Optimizer(training, slots)

    def _train(self, rows: Vector, jobs: Sequence[Job], losses: NDArray[np.float64]) -> None:
        import torch

        draws = self.model.draws
        for number, job in enumerate(jobs):
            with seeded(job.seed, self.device) if draws else nullcontext():
                self._module.train()
                losses[number] = self._train_one(torch.from_numpy(rows[number]), job)
                self._module.train(not draws)

    def _train_one(self, row: torch.Tensor, job: Job) -> float:
        import torch

        t = self.training
        weights, velocity, pull = self._weights, self._velocity, self._pull
        noise = self._step_noise(job)
        with torch.no_grad():
            self._load(tensor_of(job.base))
            torch._foreach_zero_(velocity)
            if t.proximal_mu:
                torch._foreach_copy_(pull, weights)
                torch._foreach_mul_(pull, t.proximal_mu)
        images, labels = tensor_of(job.images).to(self.device), tensor_of(job.labels).to(self.device)
        constant = None if job.correction is None else split(tensor_of(job.correction).to(self.device), weights)
        optimizer = self._optimizer
        if optimizer is not None:
            self._start(optimizer, job.optimizer)
        rates = iter(() if optimizer is None else t.rates(t.steps_of(job.samples), job.rate))
        batch, poisson = t.batch_of(job.samples), t.batches == "poisson"
        mean, deadline = math.nan, job.deadline
        for epoch, batches in enumerate(job.batches(batch), 1):
            order = tensor_of(np.concatenate(batches).astype(np.int64, copy=False)).to(self.device)
            sizes = [len(one) for one in batches]
            total = 0.0
            x, y = images.index_select(0, order), labels.index_select(0, order)
            x = x.contiguous(memory_format=self._format)
            for bx, by in zip(torch.split(x, sizes), torch.split(y, sizes), strict=True):
                gradient, loss = self._gradient(bx, by, noise, batch if poisson else len(by))
                with torch.no_grad():
                    if t.proximal_mu:
                        torch._foreach_add_(gradient, weights, alpha=t.proximal_mu)
                        torch._foreach_sub_(gradient, pull)
                    if constant is not None:
                        torch._foreach_add_(gradient, constant)
                    if optimizer is not None:
                        optimizer.step(weights, gradient, next(rates))
                    else:
                        if t.momentum:
                            torch._foreach_mul_(velocity, t.momentum)
                            torch._foreach_add_(velocity, gradient)
                            gradient = velocity
                        torch._foreach_add_(weights, gradient, alpha=-t.lr)
                total += loss * (batch if poisson else len(by))
                if deadline is not None and deadline.passed():
                    return mean
            if deadline is not None:
                deadline.epochs_done += 1
            if deadline is not None or epoch == len(job.order):
                if optimizer is not None and job.optimizer is not None:
                    self._keep(optimizer, job.optimizer)
                mean = total / len(order) if len(order) else math.nan
                with torch.no_grad():
                    for part, weight in zip(split(row, self._weights), self._weights, strict=True):
                        part.copy_(weight)
        return mean

    def _gradient(
        self, x: torch.Tensor, y: torch.Tensor, noise: StandardNormal | None, n: int
    ) -> tuple[list[torch.Tensor], float]:
        """Return the clipped gradient of a batch, with noise for DP-SGD, and the batch's mean loss. `n`: number that
        sums over the batch are divided by."""
        import torch

        t = self.training
        if self._examples is not None and t.example_clip is not None:
            gradient, summed = self._examples.clipped_sum(x, y, t.example_clip)
            if noise is not None:
                parts = split(torch.from_numpy(noise.draw()).to(self.device), self._weights)
                torch._foreach_add_(gradient, parts, alpha=t.example_noise * t.example_clip)
            torch._foreach_mul_(gradient, 1 / n)
            return gradient, summed / n
        loss = loss_of(self._module(x), y)
        gradient = list(torch.autograd.grad(loss, self._weights, materialize_grads=True))
        if t.gradient_clip is not None:
            clip_gradient(gradient, t.gradient_clip)
        return gradient, loss.item()

    def _start(self, optimizer: Optimizer, state: OptimizerState | None) -> None:
        """Begin with the optimiser's `state`, None for a fresh one."""
        import torch

        optimizer.steps = 0 if state is None else state.steps
        for name, slot in optimizer.slots.items():
            array = None if state is None else state.arrays.get(name)
            if array is None:
                torch._foreach_zero_(list(slot))
            else:
                torch._foreach_copy_(list(slot), split(tensor_of(array).to(self.device), slot))

    def _keep(self, optimizer: Optimizer, state: OptimizerState) -> None:
        """Replace `state` by the optimiser's present one."""
        import torch

        flat = {name: torch.cat([one.reshape(-1) for one in slot]) for name, slot in optimizer.slots.items()}
        state.arrays, state.steps = {name: one.cpu().numpy() for name, one in flat.items()}, optimizer.steps

    def _load(self, parameters: torch.Tensor) -> None:
        import torch

        with torch.no_grad():
            for weight, part in zip(self._weights, split(parameters, self._weights), strict=True):
                weight.copy_(part)

    def _logits(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._module(images.contiguous(memory_format=self._format))
        return logits
