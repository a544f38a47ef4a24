"""SAFL's algorithm 2 as printed: one step an epoch on the mean of clipped gradients of samples."""

import dataclasses

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn
from torch.nn.functional import cross_entropy

from asyncfl.learning import Job, LeNet, Mlp, Training
from asyncfl.learning.architecture import Architecture
from tests.learning.jobs import IMPLEMENTATIONS, random_jobs, train

SHAPE, CLASSES, LR, CLIP = (1, 12, 12), 5, 0.5, 0.8
CNN = LeNet(channels=(4, 6), hidden=(16,))


def plain_loop(model: Architecture, job: Job) -> np.ndarray:
    """Follow lines 1 to 5 of algorithm 2 literally, with a double for each sum."""
    module = model.module(SHAPE, CLASSES)
    w = torch.tensor(job.base, dtype=torch.float64)
    module = module.double()
    for _ in job.order:
        nn.utils.vector_to_parameters(w, module.parameters())
        total = torch.zeros_like(w)
        for image, label in zip(torch.tensor(job.images).double(), torch.tensor(job.labels), strict=True):
            loss = cross_entropy(module(image[None]), label[None])
            g = nn.utils.parameters_to_vector(torch.autograd.grad(loss, list(module.parameters())))
            total += g / max(1.0, float(g.norm()) / CLIP)
        w = w - LR / job.samples * total
    return w.numpy()


@pytest.mark.parametrize("epochs", [1, 4])
@pytest.mark.parametrize(
    ("model", "name"),
    [(Mlp(hidden=(20,)), "direct"), (Mlp(hidden=(20,)), "gram"), (CNN, "module"), (CNN, "batched")],
)
def test_models_agree_with_a_loop_over_samples(model: Architecture, name: str, epochs: int) -> None:
    training = Training(lr=LR, batch_size=1, local_steps="printed", gradient_clip=CLIP, epochs=epochs, device="cpu")
    jobs = random_jobs(model, SHAPE, CLASSES, (40, 7), epochs, spread=True)
    rows, _ = train(IMPLEMENTATIONS[name](model, training, SHAPE, CLASSES), *jobs)
    for row, job in zip(rows, jobs, strict=True):
        np.testing.assert_allclose(row, plain_loop(model, job), rtol=0, atol=1e-5)
        assert np.abs(row - job.base).max() > 1e-3


@pytest.mark.parametrize(("model", "name"), [(Mlp(hidden=(20,)), "direct"), (CNN, "module")])
def test_a_replaced_sample_moves_one_step_by_at_most_the_printed_sensitivity(model: Architecture, name: str) -> None:
    """By at most lr 2C/n; a sample far from the others' labels gets near it."""
    training = Training(lr=LR, batch_size=1, local_steps="printed", gradient_clip=CLIP, device="cpu")
    learner = IMPLEMENTATIONS[name](model, training, SHAPE, CLASSES)
    [job] = random_jobs(model, SHAPE, CLASSES, (30,))
    images, labels = job.images.copy(), job.labels.copy()
    images[3], labels[3] = 30 * images[3], (labels[3] + 1) % CLASSES
    one, other = train(learner, job, dataclasses.replace(job, images=images, labels=labels))[0].astype(float)
    moved = np.linalg.norm(one - other) / (LR * 2 * CLIP / 30)
    assert 0.3 < moved <= 1 + 1e-4


@pytest.mark.parametrize("fields", [{"batch_size": 32, "gradient_clip": 1.0}, {"batch_size": 1}])
def test_printed_steps_need_single_samples_and_their_clip(fields: dict[str, float]) -> None:
    with pytest.raises(
        ValidationError, match=r"local_steps: printed .* set batch_size: 1 and gradient_clip, got batch_size"
    ):
        Training(local_steps="printed", **fields)


def test_a_printed_task_has_a_step_for_each_epoch() -> None:
    assert Training(local_steps="printed", batch_size=1, gradient_clip=1.0, epochs=5).steps(600) == 5
