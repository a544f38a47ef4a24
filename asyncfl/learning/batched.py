"""Training of many clients at once, for a GPU: `torch.func.vmap` over networks stacked over clients.

Short batches are filled with samples of weight 0, and clients that have finished stay unchanged. With clipping of
examples vmap also runs over examples. Noise is drawn on the CPU, as in every other implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.architecture import Architecture, Shape, untrained_module
from asyncfl.learning.job import Job
from asyncfl.learning.layout import Vector
from asyncfl.learning.learner import Learner
from asyncfl.learning.loss import loss_of
from asyncfl.learning.module import ModuleLearner
from asyncfl.learning.tensors import split, tensor_of
from asyncfl.learning.training import Training

if TYPE_CHECKING:
    import torch


def schedule(
    jobs: Sequence[Job], training: Training
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Return the samples of each step and their weights, both (steps, jobs, batch); (steps, jobs) 1/n, where n is what
    the step divides sums by, 0 once the client has finished; and (steps, jobs) that n in a client's last epoch, 0
    elsewhere.

    The weights of a step are 1/n for a client's batch, and 0 elsewhere.
    """
    epochs_of = [list(job.batches(training.batch_of(job.samples))) for job in jobs]
    cuts_of = [list(chain.from_iterable(epochs)) for epochs in epochs_of]
    steps = max(map(len, cuts_of))
    batch = max(1, *(len(cut) for cuts in cuts_of for cut in cuts))
    indices = np.zeros((steps, len(jobs), batch), np.int64)
    weights = np.zeros((steps, len(jobs), batch), np.float32)
    shares, last = np.zeros((2, steps, len(jobs)), np.float32)
    for number, (job, cuts) in enumerate(zip(jobs, cuts_of, strict=True)):
        for step, cut in enumerate(cuts):
            n = training.batch_of(job.samples) if training.batches == "poisson" else len(cut)
            indices[step, number, : len(cut)] = cut
            weights[step, number, : len(cut)] = shares[step, number] = 1 / n
            last[step, number] = n * (step >= len(cuts) - len(epochs_of[number][-1]))
    return indices, weights, shares, last


class BatchedLearner(Learner):
    """Training of `group` clients at once with `torch.func`."""

    chunk = 2000
    group = 64
    """Clients trained at once: bounds the memory for parameters, gradients and activations."""
    numbers = 2**30
    """Largest number of float32 values in the gradients of single examples."""

    def __init__(self, model: Architecture, training: Training, shape: Shape, outputs: int, device: str) -> None:
        super().__init__(model, training, shape, outputs, device)
        self._module = (
            untrained_module(model, shape, outputs).to(self.device).requires_grad_(False).train(not model.draws)
        )
        self._names, self._like = zip(*self._module.named_parameters(), strict=True)
        self._loaded: dict[str, torch.Tensor] = {}

    def _train(self, rows: Vector, jobs: Sequence[Job], losses: NDArray[np.float64]) -> None:
        alone = self.model.draws or not self.training.is_basic
        if alone or any(job.deadline is not None or job.correction is not None for job in jobs):
            # Each client has its own clock, or its own correction: a step is not shared by several.
            self._singly._train(rows, jobs, losses)
            return
        group = self.group
        if self.training.example_clip is not None and jobs:
            batch = max(self.training.batch_of(job.samples) for job in jobs)
            group = max(1, min(group, self.numbers // (batch * self.n_parameters)))
        for start in range(0, len(jobs), group):
            cut = slice(start, start + group)
            self._train_group(rows[cut], jobs[cut], losses[cut])

    @cached_property
    def _singly(self) -> Learner:
        return ModuleLearner(self.model, self.training, self.shape, self.n_outputs, str(self.device))

    def _train_group(self, rows: Vector, jobs: Sequence[Job], losses: NDArray[np.float64]) -> None:
        import torch

        t, device = self.training, self.device
        base = torch.from_numpy(np.stack([job.base for job in jobs])).to(device)
        arrays = [[tensor_of(job.images) for job in jobs], [tensor_of(job.labels) for job in jobs]]
        images, labels = (torch.nn.utils.rnn.pad_sequence(one, batch_first=True).to(device) for one in arrays)
        indices, weights, shares, last = (torch.from_numpy(a).to(device) for a in schedule(jobs, t))
        clients = torch.arange(len(jobs), device=device)[:, None]
        active = (shares > 0)[..., None]  # (steps, jobs, 1)
        gradient = torch.func.vmap(self._gradient, (0, 0, 0, 0))
        noises = [self._step_noise(job) for job in jobs]
        w, velocity = base.clone(), torch.zeros_like(base)
        total = torch.zeros(len(jobs), dtype=torch.float64, device=device)
        for step in range(len(indices)):
            x, y = images[clients, indices[step]], labels[clients, indices[step]]
            g, loss = gradient(w, x, y, weights[step])
            # A NaN outside the last epoch does not count.
            total += torch.where(last[step] > 0, loss * last[step], 0).double()
            if t.example_noise:
                share = t.example_noise * (t.example_clip or 0) * shares[step]
                drawn = np.zeros(tuple(g.shape), np.float32)  # 0 for clients that have finished
                for row, noise, trains in zip(drawn, noises, active[step].flatten().tolist(), strict=True):
                    if noise is not None and trains:
                        row[:] = noise.draw()
                g = g + share[:, None] * torch.from_numpy(drawn).to(device)
            if t.gradient_clip is not None:
                g = _factors(g, t.gradient_clip)[:, None] * g
            if t.proximal_mu:
                g = g + t.proximal_mu * (w - base)
            if t.momentum:
                g = velocity.mul_(t.momentum).add_(g)
            w = torch.where(active[step], w - t.lr * g, w)
        rows[...] = w.cpu().numpy()
        drawn_last = [sum(map(len, list(job.batches(t.batch_of(job.samples)))[-1])) for job in jobs]
        losses[...] = (total / torch.tensor(drawn_last, device=device)).cpu().numpy()  # NaN without any sample

    def _gradient(
        self, flat: torch.Tensor, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return gradient and loss of one client, with clipped examples if `example_clip` is set."""
        import torch

        clip = self.training.example_clip
        if clip is None:
            of_batch: tuple[torch.Tensor, torch.Tensor] = torch.func.grad_and_value(self._loss)(flat, x, y, weight)
            return of_batch
        of_each = torch.func.vmap(torch.func.grad_and_value(self._loss), (None, 0, 0, 0))
        g, losses = of_each(flat, x[:, None], y[:, None], torch.ones_like(weight)[:, None])
        return (weight * _factors(g, clip)) @ g, losses @ weight

    def _loss(self, flat: torch.Tensor, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        import torch

        named = dict(zip(self._names, split(flat, self._like), strict=True))
        return loss_of(torch.func.functional_call(self._module, named, (x,)), y, "none") @ weight

    def _load(self, parameters: torch.Tensor) -> None:
        parts = (p.to(self.device) for p in split(parameters, self._like))
        self._loaded = dict(zip(self._names, parts, strict=True))

    def _logits(self, images: torch.Tensor) -> torch.Tensor:
        import torch

        logits: torch.Tensor = torch.func.functional_call(self._module, self._loaded, (images,))
        return logits


def _factors(gradients: torch.Tensor, clip: float) -> torch.Tensor:
    """Return (n,) the factors that clip these gradients (n, n_parameters) to an L2 norm of at most `clip`; zero those
    whose norm is not finite."""
    import torch

    norms = torch.linalg.vector_norm(gradients, dim=1)
    gradients.masked_fill_(~norms.isfinite()[:, None], 0)
    factors: torch.Tensor = (clip / norms).nan_to_num(nan=0.0).clamp(max=1)  # a gradient of 0 gives infinity, becomes 1
    return factors
