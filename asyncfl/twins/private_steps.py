"""DP-SGD, step by step: how far apart the sums of clipped gradients are that noise is added to.

The recorded training is gone through once more, with its noise; at each step the sum of the batch's clipped gradients
is compared with that of a twin's batch at the same model. Where a twin's data differ in one sample, that is one step of
each epoch, and the distance cannot exceed twice what examples are clipped to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.learning import Job, Learner
from asyncfl.learning.example_gradients import ExampleGradients
from asyncfl.learning.noise import StandardNormal


def step_distances(
    learner: Learner, job: Job, twins: Sequence[Job], empty: Sequence[bool]
) -> tuple[list[list[float]], Vector]:
    """For each twin, the L2 distance in each step in which its batch is another one; and the model (n_parameters,) at
    the end, which is what `learner.train` makes of the job, but for rounding.

    job: the recorded one, whose noise is drawn here; twins: the same with other data; empty: the twin has none, so that
    each of its sums is zero. A twin that differs nowhere has a single distance, 0.
    """
    import torch

    training = learner.training
    clip = training.example_clip
    assert clip is not None
    with torch.random.fork_rng(devices=[]):
        module = learner.model.module(learner.shape, learner.n_outputs)
    weights = list(module.parameters())
    gradients = ExampleGradients(module, learner.shape, learner.n_outputs)
    noise = StandardNormal(job.noise, len(job.base)) if job.noise is not None else None
    model, base = torch.from_numpy(job.base.copy()), torch.from_numpy(job.base.copy())
    velocity = torch.zeros_like(model)
    size = training.batch_of(job.samples)
    differ = [_differing(job, twin) for twin in twins]
    distances: list[list[float]] = [[] for _ in twins]

    def total(images: NDArray[np.float32], labels: NDArray[Any]) -> torch.Tensor:
        parts, _ = gradients.clipped_sum(torch.from_numpy(images), torch.from_numpy(labels), clip)
        return torch.cat([part.reshape(-1) for part in parts])

    for order in np.asarray(job.order, np.int64):
        for start in range(0, job.samples, size):
            batch = order[start : start + size]
            with torch.no_grad():
                place = 0
                for weight in weights:
                    weight.copy_(model[place : place + weight.numel()].view_as(weight))
                    place += weight.numel()
            own = total(job.images[batch], job.labels[batch])
            for number, twin in enumerate(twins):
                if empty[number]:
                    distances[number].append(float(own.double().norm()))
                elif differ[number][batch].any():
                    there = total(twin.images[batch], twin.labels[batch])
                    distances[number].append(float((own - there).double().norm()))
            if noise is not None:
                own = own + training.example_noise * clip * torch.from_numpy(noise.draw())
            step = own / len(batch) + training.proximal_mu * (model - base)
            velocity = training.momentum * velocity + step
            model = model - training.lr * velocity
    return [one or [0.0] for one in distances], model.numpy()


def _differing(job: Job, twin: Job) -> NDArray[np.bool_]:
    """(samples,) which samples are others."""
    images = (job.images != twin.images).reshape(job.samples, -1).any(1)
    found: NDArray[np.bool_] = images | (job.labels != twin.labels).reshape(job.samples, -1).any(1)
    return found
