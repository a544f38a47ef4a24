"""Settings of training, and SAFL's algorithm 2 as printed: one step an epoch on the mean of clipped gradients."""

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
    ("model", "name"), [(Mlp(hidden=(20,)), "direct"), (Mlp(hidden=(20,)), "gram"), (CNN, "module"), (CNN, "batched")]
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


@pytest.mark.parametrize(
    ("batch", "samples", "steps"), [(20, 100, 25), (32, 100, 20), ("full", 100, 5), (32, 7, 5), (20, 0, 0)]
)
def test_steps_of_a_task_of_five_epochs(batch: int | str, samples: int, steps: int) -> None:
    assert Training(batch_size=batch, epochs=5).steps(samples) == steps
    assert Training(local_steps="printed", batch_size=1, gradient_clip=1.0, epochs=5).steps(600) == 5


def test_clips_that_exclude_each_other_and_noise_without_a_clip_are_refused() -> None:
    with pytest.raises(ValidationError, match="gradient_clip and example_clip exclude each other"):
        Training(gradient_clip=1, example_clip=1)
    with pytest.raises(ValidationError, match=r"example_noise is in units of example_clip, which must be set for 0\.5"):
        Training(example_noise=0.5)
    with pytest.raises(
        ValidationError, match=r"local_steps: printed .* set batch_size: 1 and gradient_clip, got batch_s"
    ):
        Training(local_steps="printed", batch_size=1)
    assert Training(example_clip=2, example_noise=0.5).example_noise == 0.5
