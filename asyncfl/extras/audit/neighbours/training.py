"""The uploads of twins, trained beside the recorded one, as two worlds that an adversary must tell apart.

Noise that training draws (DP-SGD, or noise after each epoch) goes into what follows. There the adversary is granted, as
by the accountant, the model before each noised step: the distance is that of the sums to which the noise was added, and
an upload is as many releases as it has epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.client import Assignment
from asyncfl.client.clip import norm_of
from asyncfl.client.path import TaskPath
from asyncfl.extras.audit.neighbours.data import Neighbour
from asyncfl.learning import Job, Learner
from asyncfl.privacy import Contribution
from asyncfl.privacy.accounting.release_pairs import laplace_shift_counts

Twins = Sequence[tuple[Neighbour, float | None]]  # neighbours, each with the budget of its upload, where it has one
CHUNK_BYTES = 2**26


@dataclass(frozen=True)
class TwinUpload:
    neighbour: Neighbour
    loss: float  # mean training loss of the last local epoch; NaN where none was found
    norm: float  # norm of its payload before clipping
    clip_norm: float | None  # norm that it is clipped to; None: it is not
    distances: tuple[float, ...]
    """|u - u'| of the payloads that noise is added to, L2 (laplace: L1); several where an upload stands for several
    releases."""
    contribution: Contribution  # contribution with the twin's own budget, where budgets follow the losses
    std: float
    shifts: NDArray[np.int64] | None = None  # `laplace_shift_counts` of u - u'; None with Gaussian noise
    own_model_distance: float | None = None  # L1, where the server's noise is Laplace; None: as `distance`

    @property
    def distance(self) -> float:
        return max(self.distances)

    @property
    def model_distance(self) -> float:
        """|u - u'| in the norm of the server's noise, L2 (laplace: L1)."""
        return self.distance if self.own_model_distance is None else self.own_model_distance


def twin_uploads(
    path: TaskPath,
    assignment: Assignment,
    contribution: Contribution,
    norms: NDArray[np.float64],
    row: int,
    twins: Twins,
) -> Iterator[TwinUpload]:
    """Yield the upload of each twin of a recorded upload.

    `assignment`, `contribution`: of the recorded upload. `norms`: (n,) norms of the uploads of its collection before
    clipping; `row`: its index there.
    """
    job, scheme = path.job(assignment), path.scheme
    if path.training.example_noise:
        yield from _by_steps(path, assignment, job, contribution, twins)
        return
    parts = _parts(path, assignment, job, contribution)
    own, own_losses = _trained(path, [job], parts)
    recorded, _, _ = _clipped(path, [models[0] for models in own], assignment, norms, row)
    at_once = max(1, CHUNK_BYTES // (4 * len(assignment.base)))
    for start in range(0, len(twins), at_once):
        some = twins[start : start + at_once]
        rows, losses = _trained(path, [_twin(path, job, one, assignment) for one, _ in some], parts)
        for place, (neighbour, epsilon) in enumerate(some):
            zeroed = neighbour.kind == "zeroed"
            models = [assignment.base if zeroed else part[place] for part in rows]
            theirs, norm, clip = _clipped(path, models, assignment, norms, row)
            one = replace(contribution, epsilon=epsilon)
            noise = scheme.upload_noise(path.context, clip, one)
            differences = [a.astype(np.float64) - b for a, b in zip(recorded, theirs, strict=True)]
            laplace = noise.distribution == "laplace"
            in_model = scheme.model_noise(path.context, clip, [one]).distribution
            yield TwinUpload(
                neighbour,
                float(own_losses[0] if zeroed else losses[place]),
                norm,
                clip,
                tuple(norm_of(difference, 1 if laplace else 2) for difference in differences),
                one,
                noise.std,
                laplace_shift_counts(differences[-1], noise.std / np.sqrt(2)) if laplace and noise.std else None,
                norm_of(differences[-1], 1) if in_model == "laplace" else None,
            )


def recorded_model(path: TaskPath, assignment: Assignment) -> Vector:
    """Return the model (n_parameters,) of the recorded task."""
    model = np.empty_like(assignment.base)
    path.learner.train(model[None], [path.job(assignment)])
    return model


def _parts(path: TaskPath, assignment: Assignment, job: Job, contribution: Contribution) -> list[tuple[Vector, slice]]:
    """Return the parts of the recorded training: the model that each begins with, and its epochs."""
    base = assignment.base
    if not path.scheme.noise_each_epoch:
        return [(base, slice(None))]
    stream = path.streams.generator("epoch_noise", assignment.client, assignment.turn)
    std = np.float32(path.scheme.upload_noise(path.context, None, contribution).std)
    parts = [(base, slice(0, 1))]
    for epoch in range(1, len(job.order)):
        (rows,), _ = _trained(path, [job], parts[-1:])
        base = rows[0] + std * stream.standard_normal(rows.shape[1], dtype=np.float32)
        parts.append((base, slice(epoch, epoch + 1)))
    return parts


def _trained(
    path: TaskPath, jobs: Sequence[Job], parts: Sequence[tuple[Vector, slice]]
) -> tuple[list[Vector], NDArray[np.float64]]:
    """Return (n, n_parameters) models of the jobs at the end of each part, and the last losses."""
    made = []
    for base, epochs in parts:
        rows = np.empty((len(jobs), len(base)), np.float32)
        if path.scheme.noise_each_epoch:
            some = [job.epoch(epochs.start, base) for job in jobs]
        else:
            some = [replace(job, base=base, order=job.order[epochs]) for job in jobs]
        losses = path.learner.train(rows, some)
        made.append(rows)
    return made, losses


def _twin(path: TaskPath, job: Job, neighbour: Neighbour, assignment: Assignment) -> Job:
    images, labels = neighbour.data(path.data, assignment.client)
    return replace(job, images=images, labels=labels)


def _clipped(
    path: TaskPath, models: Sequence[Vector], assignment: Assignment, norms: NDArray[np.float64], row: int
) -> tuple[list[Vector], float, float | None]:
    """Clip payloads to the clip norm that follows from the last one's norm, in `row` of its collection's `norms`.

    A payload is a model, or a multiple of the update. Returns the payloads, the norm of the last one before, and the
    clip norm.
    """
    scheme, order = path.scheme, path.scheme.clip_target.order
    if scheme.clip_target.payload != "model":
        samples = path.data.samples(assignment.client)
        factor = np.float32(scheme.update_factor(path.context, samples, assignment.epochs))
        models = [(model - assignment.base) * factor for model in models]
    norm = norm_of(models[-1], order)
    clip_norm = path.clip_norm(np.where(np.arange(len(norms)) == row, norm, norms))
    return [clipped(one, norm_of(one, order), clip_norm) for one in models], norm, clip_norm


def _by_steps(
    path: TaskPath, assignment: Assignment, job: Job, contribution: Contribution, twins: Twins
) -> Iterator[TwinUpload]:
    std = path.scheme.upload_noise(path.context, None, contribution).std
    data = [_twin(path, job, neighbour, assignment) for neighbour, _ in twins]
    found, _ = step_distances(path.learner, job, data, [neighbour.kind == "zeroed" for neighbour, _ in twins])
    for (neighbour, epsilon), distances in zip(twins, found, strict=True):
        one = replace(contribution, epsilon=epsilon)
        yield TwinUpload(neighbour, np.nan, np.nan, None, tuple(distances), one, std)


def clipped(payload: Vector, norm: float, clip_norm: float | None) -> Vector:
    """Return `payload`, whose norm is `norm`, scaled down to `clip_norm`; None: as it is."""
    if clip_norm is None or not norm > clip_norm:
        return payload
    return payload * np.float32(clip_norm / norm)


def step_distances(
    learner: Learner, job: Job, twins: Sequence[Job], empty: Sequence[bool]
) -> tuple[list[list[float]], Vector]:
    """Repeat the training of DP-SGD, and compare its sums of clipped gradients with those of twins' batches.

    Where a twin differs in one sample, one step of each epoch differs, by at most twice the example clip.

    `job`: recorded training with an `example_clip`, whose noise is drawn here. `twins`: the same training on other
    data. `empty`: whether a twin has no data, so that its sums are zero.

    Returns for each twin the L2 distance of each step in which its batch differs (a twin that differs nowhere has a
    single distance, 0), and the model (n_parameters,) at the end, equal to `learner.train` but for rounding, or of the
    same law where that draws the noise of several steps together (`learning.block_noise`).
    """
    import torch
    from torch.nn.utils import vector_to_parameters

    from asyncfl.learning.example_gradients import ExampleGradients
    from asyncfl.learning.normal_noise import StandardNormal
    from asyncfl.learning.optimizer import Optimizer, slots_of
    from asyncfl.learning.seeded import seeded
    from asyncfl.learning.weights import module_with_parameters

    training, clip = learner.training, learner.training.example_clip
    assert clip is not None
    module = module_with_parameters(learner.model, learner.shape, learner.n_outputs, job.base)
    gradients = ExampleGradients(module, learner.shape, learner.n_outputs)
    noise = StandardNormal(job.noise, len(job.base)) if job.noise is not None else None
    model, base = torch.from_numpy(job.base.copy()), torch.from_numpy(job.base.copy())
    rates = iter(training.rates(training.steps_of(job.samples), job.rate))
    optimizer = Optimizer(training, {name: [torch.zeros_like(model)] for name in slots_of(training)})
    size = training.batch_of(job.samples)
    differ = [
        (job.images != twin.images).reshape(job.samples, -1).any(1)
        | (job.labels != twin.labels).reshape(job.samples, -1).any(1)
        for twin in twins
    ]
    distances: list[list[float]] = [[] for _ in twins]

    def total(images: NDArray[np.float32], labels: NDArray[Any]) -> torch.Tensor:
        parts, _ = gradients.clipped_sum(torch.from_numpy(images), torch.from_numpy(labels), clip)
        return torch.cat([part.reshape(-1) for part in parts])

    # Twins drop the same units as the recorded training.
    with seeded(job.seed) if learner.model.draws else nullcontext():
        module.train()
        for batch in chain.from_iterable(job.batches(size)):
            vector_to_parameters(model, module.parameters())
            before = torch.get_rng_state()
            own = total(job.images[batch], job.labels[batch])
            after = torch.get_rng_state()
            for number, twin in enumerate(twins):
                if empty[number]:
                    distances[number].append(float(own.double().norm()))
                elif differ[number][batch].any():
                    torch.set_rng_state(before)
                    there = total(twin.images[batch], twin.labels[batch])
                    distances[number].append(float((own - there).double().norm()))
            torch.set_rng_state(after)
            if noise is not None:
                own = own + training.example_noise * clip * torch.from_numpy(noise.draw())
            step = own / (size if training.batches == "poisson" else len(batch)) + training.proximal_mu * (model - base)
            model = model.clone()
            optimizer.step([model], [step], next(rates))
    return [one or [0.0] for one in distances], model.numpy()
