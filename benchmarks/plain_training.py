"""The plain training loop over an nn.Module, which defines the result of every faster implementation.

The tests of `asyncfl.learning` compare all of them with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning.architecture import Architecture
from asyncfl.learning.job import Job
from asyncfl.learning.loss import loss_of
from asyncfl.learning.normal_noise import StandardNormal
from asyncfl.learning.training import Training

if TYPE_CHECKING:
    import torch


def train(
    model: Architecture, training: Training, outputs: int, rows: NDArray[np.float32], jobs: Sequence[Job]
) -> NDArray[np.float64]:
    """Train one model per job, write the models into `rows` (n, d) and return the mean training loss (n,) of each last
    epoch."""
    import torch
    from torch import nn

    losses = np.zeros(len(jobs))
    before = torch.get_rng_state()
    module = model.module(jobs[0].images.shape[1:], outputs)
    for number, job in enumerate(jobs):
        base = torch.tensor(job.base)
        nn.utils.vector_to_parameters(base, module.parameters())
        start = [p.detach().clone() for p in module.parameters()]
        images, labels = torch.tensor(job.images), torch.tensor(job.labels)
        torch.manual_seed(job.seed)
        noise = StandardNormal(job.noise, len(base)) if job.noise is not None and training.example_noise else None
        optimiser = optimiser_of(training, module)
        rates = iter(training.rates(training.steps_of(job.samples), job.rate))
        for epoch, samples in enumerate(job.order):
            order = torch.tensor(np.asarray(samples, np.int64))
            for batch in torch.split(order, training.batch_of(job.samples)):
                loss = loss_of(module(images[batch]), labels[batch])
                optimiser.zero_grad()
                if training.example_clip is None:
                    loss.backward()  # type: ignore[no-untyped-call]
                else:
                    _private_gradient(module, images[batch], labels[batch], training, noise)
                if training.gradient_clip is not None:
                    norm = nn.utils.clip_grad_norm_(module.parameters(), training.gradient_clip)
                    if not norm.isfinite():
                        optimiser.zero_grad(set_to_none=False)
                for parameter, sent in zip(module.parameters(), start, strict=True):
                    assert parameter.grad is not None
                    parameter.grad.add_(parameter.detach() - sent, alpha=training.proximal_mu)
                for group in optimiser.param_groups:
                    group["lr"] = next(rates)
                optimiser.step()
                if epoch == len(job.order) - 1:
                    losses[number] += loss.item() * len(batch) / len(order)
        rows[number] = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    torch.set_rng_state(before)
    return losses


def optimiser_of(training: Training, module: torch.nn.Module) -> torch.optim.Optimizer:
    """Return torch's own optimiser with the settings of the training."""
    import torch

    lr, decay = training.lr, training.weight_decay
    if training.optimizer == "sgd":
        return torch.optim.SGD(module.parameters(), lr, training.momentum, weight_decay=decay)
    kind = torch.optim.Adam if training.optimizer == "adam" else torch.optim.AdamW
    return kind(module.parameters(), lr, training.betas, training.eps, decay)


def _private_gradient(
    module: torch.nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    training: Training,
    noise: StandardNormal | None,
) -> None:
    """Set each `grad` to the mean of the batch's clipped example gradients, with noise."""
    import torch
    from torch import nn

    parameters = list(module.parameters())
    clip = training.example_clip
    assert clip is not None
    total = torch.zeros(sum(p.numel() for p in parameters))
    for image, label in zip(images, labels, strict=True):
        loss = loss_of(module(image[None]), label[None])
        gradient = nn.utils.parameters_to_vector(torch.autograd.grad(loss, parameters))
        norm = float(gradient.norm())
        if math.isfinite(norm):
            total += gradient * (clip / norm) if norm > clip else gradient
    if noise is not None:
        total += training.example_noise * clip * torch.from_numpy(noise.draw())
    start = 0
    for parameter in parameters:
        stop = start + parameter.numel()
        parameter.grad = (total[start:stop] / len(labels)).view_as(parameter)
        start = stop
