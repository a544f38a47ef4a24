"""The loss of a regression is the squared error, on every path of training and wherever models are judged."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from asyncfl.learning import reference
from asyncfl.learning.architecture import Architecture
from asyncfl.learning.job import Job
from asyncfl.learning.learner import Learner, make_learner
from asyncfl.learning.loss import is_regression, loss_of, loss_slope
from asyncfl.learning.models import Linear, Mlp
from asyncfl.learning.training import Training
from tests.learning.test_paths import LEARNERS, SHAPE

SETTINGS = {
    "momentum, proximal": {"batch_size": 8, "momentum": 0.9, "proximal_mu": 1.0, "epochs": 3},
    "clipped": {"batch_size": 8, "gradient_clip": 0.5, "epochs": 2},
    "examples clipped": {"batch_size": 8, "example_clip": 0.7, "epochs": 2},
    "examples clipped, noise": {"batch_size": 8, "example_clip": 1.0, "example_noise": 0.8},
}


def jobs_for(model: Architecture, training: Training, outputs: int) -> list[Job]:
    """Two calls give equal jobs, with generators of their own."""
    rng = np.random.default_rng(0)
    jobs = []
    for number, m in enumerate((20, 7)):
        base = model.initial_parameters(SHAPE, outputs, torch.Generator().manual_seed(number))
        images = rng.normal(size=(m, *SHAPE)).astype(np.float32)
        labels = rng.normal(size=(m, outputs)).astype(np.float32)
        order = np.stack([rng.permutation(m) for _ in range(training.epochs)])
        for array in (base, images, labels, order):
            array.setflags(write=False)
        jobs.append(Job(base, images, labels, order, np.random.SFC64([3, number])))
    return jobs


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("path", [path for path in LEARNERS if path not in ("auto", "cnn", "gram, deep")])
def test_every_path_agrees_with_the_plain_loop(path: str, setting: str, outputs: int) -> None:
    model, make = LEARNERS[path]
    training = Training(lr=0.02, device="cpu", **SETTINGS[setting])
    jobs = jobs_for(model, training, outputs)
    learner = make(model, training, SHAPE, outputs)
    rows, expected = (np.full((len(jobs), learner.n_parameters), np.nan, np.float32) for _ in range(2))
    losses = learner.train(rows, jobs)
    wanted = reference.train(model, training, outputs, expected, jobs_for(model, training, outputs))
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5, atol=1e-5)
    assert np.abs(rows - np.stack([job.base for job in jobs])).max() > 1e-3


def test_one_learner_trains_classes_and_numbers_in_turn() -> None:
    """Nothing of one loss is left behind for the other."""
    training = Training(lr=0.1, batch_size=8, device="cpu")
    learner = make_learner(Mlp(hidden=(6,)), training, SHAPE, 3)
    [numbers, _] = jobs_for(learner.model, training, 3)
    classes = Job(numbers.base, numbers.images, np.arange(20) % 3, numbers.order)
    found = [learner.train(np.empty((1, learner.n_parameters), np.float32), [job])[0] for job in
             (numbers, classes, numbers, classes)]  # fmt: skip
    assert found[:2] == found[2:]


def test_least_squares_by_hand() -> None:
    """One sample x = 2, y = 3 and the model w = 1, b = 0: the loss is 1, its slope -2; w moves by lr 4, b by lr 2."""
    learner = make_learner(Linear(), Training(lr=0.1, device="cpu"), (1,), 1)
    base = np.array([1, 0], np.float32)
    x, y = np.array([[2]], np.float32), np.array([[3]], np.float32)
    rows = np.empty((1, 2), np.float32)
    losses = learner.train(rows, [Job(base, x, y, np.zeros((1, 1), np.int64))])
    assert losses.tolist() == [1.0]
    np.testing.assert_allclose(rows, [[1.4, 0.2]], rtol=1e-6)


def judged() -> tuple[Learner, np.ndarray, np.ndarray, np.ndarray]:
    """A linear model of two outputs, 7 samples, and what they should be."""
    rng = np.random.default_rng(1)
    learner = make_learner(Linear(), Training(device="cpu"), (4,), 2)
    model = rng.normal(size=learner.n_parameters).astype(np.float32)
    return learner, model, rng.normal(size=(7, 4)).astype(np.float32), rng.normal(size=(7, 2)).astype(np.float32)


def test_a_model_of_numbers_is_judged_by_its_squared_error() -> None:
    learner, model, x, y = judged()
    wanted = ((x @ model[:8].reshape(2, 4).T + model[8:] - y).astype(np.float64) ** 2).mean(1)
    np.testing.assert_allclose(learner.losses(model, x, y), wanted, rtol=1e-5)
    loss, accuracy = learner.evaluate(model, x, y)
    assert loss == pytest.approx(wanted.mean(), rel=1e-5)
    assert math.isnan(accuracy)


def test_gradient_and_slopes_are_those_of_the_squared_error() -> None:
    learner, model, x, y = judged()
    gradient = learner.gradient(model, x, y)
    direction = np.random.default_rng(2).normal(size=len(model)).astype(np.float32)
    slopes = learner.slopes(model, direction, x, y)
    assert slopes.mean() == pytest.approx(float(gradient @ direction), rel=1e-4)
    step = 1e-2
    ahead, behind = (learner.losses((model + way * direction).astype(np.float32), x, y) for way in (step, -step))
    np.testing.assert_allclose(slopes, (ahead - behind) / (2 * step), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("labels", [torch.tensor([1, 0, 2]), torch.randn(3, 4, generator=torch.Generator())])
def test_the_slope_is_the_derivative_of_the_loss(labels: torch.Tensor) -> None:
    outputs = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    [derivative] = torch.autograd.grad(loss_of(outputs, labels, "sum"), outputs)
    torch.testing.assert_close(loss_slope(outputs, labels).detach(), derivative)


def test_labels_tell_the_loss() -> None:
    assert is_regression(np.zeros((2, 1), np.float32))
    assert not is_regression(np.zeros(2, np.int64))


def test_labels_of_another_shape_are_refused_and_not_spread_over_the_batch() -> None:
    learner = make_learner(Linear(), Training(device="cpu"), (1,), 1)
    job = Job(
        np.zeros(2, np.float32), np.zeros((3, 1), np.float32), np.zeros(3, np.float32), np.zeros((1, 3), np.int64)
    )
    with pytest.raises(ValueError, match=r"labels of job 0 must have shape \(3, 1\), got \(3,\)"):
        learner.train(np.empty((1, 2), np.float32), [job])
