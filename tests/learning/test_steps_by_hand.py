"""Settings of training: steps of SGD by hand for each option and implementation, and SAFL's algorithm 2 as printed."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn
from torch.nn.functional import cross_entropy

from asyncfl.learning import Job, LeNet, Linear, Mlp, Training, make_learner
from asyncfl.learning.architecture import Architecture
from asyncfl.learning.learner import Learner
from asyncfl.learning.mlp import MlpLearner
from asyncfl.learning.normal_noise import StandardNormal
from benchmarks import plain_training
from tests.learning.jobs import IMPLEMENTATIONS, random_jobs, train

LEARNERS = {"mlp": MlpLearner, **{name: IMPLEMENTATIONS[name] for name in ("module", "batched")}}
CLIP = math.sqrt(5) / 2


@pytest.mark.parametrize("name", [*LEARNERS, "reference"])
@pytest.mark.parametrize(
    ("settings", "model", "loss"),
    [
        # One sample x = 2, y = 3 and the model w = 1, b = 0: the error w x + b - y is -1, its loss 1, and the gradient
        # 2 error (x, 1) = (-4, -2). The first step, lr .1, gives w = 1.4, b = .2, whose error and gradient are 0.
        ({}, (1.4, 0.2), 0),
        # Half of the first step's velocity is left: (1.4, .2) - .1 (-2, -1).
        ({"momentum": 0.5}, (1.6, 0.3), 0),
        # Back towards the model that was sent: (1.4, .2) - .1 2 (.4, .2).
        ({"proximal_mu": 2.0}, (1.32, 0.16), 0),
        # |(-4, -2)| = sqrt(20), so each gradient is shortened to (-1, -.5). The error of (1.1, .05) is -.75.
        ({"gradient_clip": CLIP}, (1.2, 0.1), 0.5625),
        ({"example_clip": CLIP}, (1.2, 0.1), 0.5625),
        # The proximal term is not clipped: (1.1, .05) - .1 ((-1, -.5) + 2 (.1, .05)).
        ({"gradient_clip": CLIP, "proximal_mu": 2.0}, (1.18, 0.09), 0.5625),
        ({"gradient_clip": CLIP, "momentum": 0.5}, (1.25, 0.125), 0.5625),
    ],
    ids=str,
)
def test_two_steps_of_least_squares(
    name: str, settings: dict[str, float], model: tuple[float, float], loss: float
) -> None:
    training = Training(lr=0.1, epochs=2, device="cpu", **settings)
    job = Job(
        np.array([1, 0], np.float32), np.array([[2]], np.float32), np.array([[3]], np.float32), np.zeros((2, 1), int)
    )
    row = np.empty((1, 2), np.float32)
    if name == "reference":
        losses = plain_training.train(Linear(), training, 1, row, [job])
    else:
        losses = LEARNERS[name](Linear(), training, (1,), 1).train(row, [job])
    np.testing.assert_allclose(row[0], model, atol=1e-6)
    np.testing.assert_allclose(losses, [loss], atol=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_noise_is_added_to_the_sum_of_clipped_gradients(name: str) -> None:
    """The sample above twice: the mean gradient is (-1, -.5) plus z C / 2 times the drawn normals."""
    training = Training(lr=0.1, example_clip=CLIP, example_noise=3.0, device="cpu")
    x, y = np.full((2, 1), 2, np.float32), np.full((2, 1), 3, np.float32)
    row = np.empty((1, 2), np.float32)
    job = Job(np.array([1, 0], np.float32), x, y, np.array([[0, 1]]), np.random.SFC64(5))
    LEARNERS[name](Linear(), training, (1,), 1).train(row, [job])
    drawn = StandardNormal(np.random.SFC64(5), 2).draw()
    np.testing.assert_allclose(row[0], np.array([1.1, 0.05]) - 0.1 * 3 * CLIP / 2 * drawn, atol=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_each_example_is_clipped_by_itself(name: str) -> None:
    """Softmax regression from zero: the errors are d = (1/2, -1/2) for label 1, the gradients d (x, 1)."""
    training = Training(lr=1.0, batch_size="full", example_clip=1.0, device="cpu")
    images = np.array([[[[2.0, 2.0, 0.0]]], [[[0.0, 0.0, 0.5]]]], np.float32)
    job = Job(np.zeros(8, np.float32), images, np.array([1, 1]), np.array([[0, 1]]))
    row = np.empty((1, 8), np.float32)
    LEARNERS[name](Mlp(hidden=()), training, (1, 1, 3), 2).train(row, [job])
    # |d|^2 = 1/2, so |g_1| = sqrt(1/2 (8 + 1)) = 2.12 is clipped to 1, and |g_2| = sqrt(1/2 1.25) = .79 is not.
    factor = 1 / math.sqrt(4.5)
    class_0 = np.array([2 * factor, 2 * factor, 0.5]) / 4  # 1/2 of each error, 1/2 of the mean
    bias_0 = (factor + 1) / 4
    np.testing.assert_allclose(row[0], [*-class_0, *class_0, -bias_0, bias_0], atol=1e-6)


def test_a_learner_keeps_nothing_between_regression_and_classification() -> None:
    learner: Learner = make_learner(Mlp(hidden=(6,)), Training(lr=0.1, batch_size=8, device="cpu"), (5,), 3)
    rng = np.random.default_rng(0)
    base, x = rng.normal(size=learner.n_parameters).astype(np.float32), rng.normal(size=(20, 5)).astype(np.float32)
    numbers, classes = rng.normal(size=(20, 3)).astype(np.float32), np.arange(20) % 3
    row = np.empty((1, len(base)), np.float32)
    losses = [float(learner.train(row, [Job(base, x, y, np.arange(20)[None])])[0]) for y in (numbers, classes) * 2]
    assert losses[:2] == losses[2:]


SHAPE, CLASSES, LR, LIMIT = (1, 12, 12), 5, 0.5, 0.8
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
            total += g / max(1.0, float(g.norm()) / LIMIT)
        w = w - LR / job.samples * total
    return w.numpy()


@pytest.mark.parametrize("epochs", [1, 4])
@pytest.mark.parametrize(
    ("model", "name"), [(Mlp(hidden=(20,)), "direct"), (Mlp(hidden=(20,)), "gram"), (CNN, "module"), (CNN, "batched")]
)
def test_models_agree_with_a_loop_over_samples(model: Architecture, name: str, epochs: int) -> None:
    training = Training(lr=LR, batch_size=1, gradient_step="printed", gradient_clip=LIMIT, epochs=epochs, device="cpu")
    jobs = random_jobs(model, SHAPE, CLASSES, (40, 7), epochs, spread=True)
    rows, _ = train(IMPLEMENTATIONS[name](model, training, SHAPE, CLASSES), *jobs)
    for row, job in zip(rows, jobs, strict=True):
        np.testing.assert_allclose(row, plain_loop(model, job), rtol=0, atol=1e-5)
        assert np.abs(row - job.base).max() > 1e-3


@pytest.mark.parametrize(("model", "name"), [(Mlp(hidden=(20,)), "direct"), (CNN, "module")])
def test_a_replaced_sample_moves_one_step_by_at_most_the_printed_sensitivity(model: Architecture, name: str) -> None:
    """By at most lr 2C/n; a sample far from the others' labels gets near it."""
    training = Training(lr=LR, batch_size=1, gradient_step="printed", gradient_clip=LIMIT, device="cpu")
    learner = IMPLEMENTATIONS[name](model, training, SHAPE, CLASSES)
    [job] = random_jobs(model, SHAPE, CLASSES, (30,))
    images, labels = job.images.copy(), job.labels.copy()
    images[3], labels[3] = 30 * images[3], (labels[3] + 1) % CLASSES
    one, other = train(learner, job, dataclasses.replace(job, images=images, labels=labels))[0].astype(float)
    moved = np.linalg.norm(one - other) / (LR * 2 * LIMIT / 30)
    assert 0.3 < moved <= 1 + 1e-4


@pytest.mark.parametrize(
    ("batch", "samples", "steps"), [(20, 100, 25), (32, 100, 20), ("full", 100, 5), (32, 7, 5), (20, 0, 0)]
)
def test_steps_of_a_task_of_five_epochs(batch: int | str, samples: int, steps: int) -> None:
    assert Training(batch_size=batch, epochs=5).steps_of(samples) == steps
    assert Training(gradient_step="printed", batch_size=1, gradient_clip=1.0, epochs=5).steps_of(600) == 5


def test_clips_that_exclude_each_other_and_noise_without_a_clip_are_refused() -> None:
    with pytest.raises(ValidationError, match="gradient_clip and example_clip exclude each other"):
        Training(gradient_clip=1, example_clip=1)
    with pytest.raises(ValidationError, match=r"example_noise is in units of example_clip, which must be set for 0\.5"):
        Training(example_noise=0.5)
    with pytest.raises(
        ValidationError, match=r"gradient_step: printed .* set batch_size: 1 and gradient_clip, got batch_s"
    ):
        Training(gradient_step="printed", batch_size=1)
    assert Training(example_clip=2, example_noise=0.5).example_noise == 0.5
