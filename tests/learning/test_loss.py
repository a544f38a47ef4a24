"""Cross-entropy for classes, squared error for regression, and their derivatives."""

import math

import numpy as np
import pytest
import torch

from asyncfl.learning import Learner, make_learner
from asyncfl.learning.job import Job
from asyncfl.learning.loss import is_regression, loss_of, loss_slope
from asyncfl.learning.models import Linear
from asyncfl.learning.training import Training


@pytest.fixture
def judged() -> tuple[Learner, np.ndarray, np.ndarray, np.ndarray]:
    """A linear model with two outputs, 7 samples, and the numbers to predict."""
    rng = np.random.default_rng(1)
    learner = make_learner(Linear(), Training(device="cpu"), (4,), 2)
    model = rng.normal(size=learner.n_parameters).astype(np.float32)
    return learner, model, rng.normal(size=(7, 4)).astype(np.float32), rng.normal(size=(7, 2)).astype(np.float32)


def test_a_regression_is_evaluated_by_its_squared_error(judged) -> None:
    learner, model, x, y = judged
    expected = ((x @ model[:8].reshape(2, 4).T + model[8:] - y).astype(np.float64) ** 2).mean(1)
    np.testing.assert_allclose(learner.losses(model, x, y), expected, rtol=1e-5, atol=1e-6)
    loss, accuracy = learner.evaluate(model, x, y)
    assert loss == pytest.approx(expected.mean(), rel=1e-5)
    assert math.isnan(accuracy)
    assert is_regression(y)
    assert not is_regression(np.zeros(2, np.int64))


def test_gradient_and_slopes_of_a_regression_agree_with_finite_differences(judged) -> None:
    learner, model, x, y = judged
    direction = np.random.default_rng(2).normal(size=len(model)).astype(np.float32)
    slopes = learner.slopes(model, direction, x, y)
    assert slopes.mean() == pytest.approx(float(learner.gradient(model, x, y) @ direction), rel=1e-4)
    step = 1e-2
    ahead, behind = (learner.losses((model + way * direction).astype(np.float32), x, y) for way in (step, -step))
    np.testing.assert_allclose(slopes, (ahead - behind) / (2 * step), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("labels", [torch.tensor([1, 0, 2]), torch.randn(3, 4, generator=torch.Generator())])
def test_the_slope_is_the_derivative_of_the_loss(labels: torch.Tensor) -> None:
    outputs = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    [derivative] = torch.autograd.grad(loss_of(outputs, labels, "sum"), outputs)
    torch.testing.assert_close(loss_slope(outputs, labels).detach(), derivative)


def test_labels_of_another_shape_are_refused_instead_of_broadcast() -> None:
    learner = make_learner(Linear(), Training(device="cpu"), (1,), 1)
    zeros = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match=r"labels of job 0 must have shape \(3, 1\), got \(3,\)"):
        learner.train(np.empty((1, 2), np.float32), [Job(zeros[:2], zeros[:, None], zeros, np.zeros((1, 3), np.int64))])
