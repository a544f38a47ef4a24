"""Every implementation of training gives what the plain loop over the nn.Module (`reference`) gives, to 1e-5.

What the plain loop gives is worked out by hand in `test_steps_by_hand.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from asyncfl.learning import reference
from asyncfl.learning.architecture import Architecture, Shape
from asyncfl.learning.batched import BatchedLearner
from asyncfl.learning.job import Job
from asyncfl.learning.learner import make_learner
from asyncfl.learning.mlp import MlpLearner
from asyncfl.learning.models import CharLstm, LeNet, Linear, McMahanCnn, Mlp, ResNet, SmallCnn
from asyncfl.learning.module import ModuleLearner
from asyncfl.learning.training import Training

SHAPE = (1, 12, 12)
CLASSES = 5
SETTINGS = {
    "sgd": {"batch_size": 8},
    "momentum": {"batch_size": 8, "momentum": 0.9, "epochs": 3},
    "proximal": {"batch_size": 8, "proximal_mu": 2.0, "epochs": 3},
    "momentum, proximal": {"batch_size": 8, "momentum": 0.9, "proximal_mu": 1.0, "epochs": 5},
    "clipped": {"batch_size": 8, "gradient_clip": 0.5, "epochs": 2},
    "all": {"batch_size": 8, "momentum": 0.5, "proximal_mu": 1.0, "gradient_clip": 0.5, "epochs": 3},
    "full": {"batch_size": "full"},
    "full, clipped": {"batch_size": "full", "gradient_clip": 0.3},
    "full, all": {
        "batch_size": "full", "momentum": 0.9, "proximal_mu": 1.0, "epochs": 4, "gradient_clip": 0.3,
    },
}  # fmt: skip
LENET, SMALL = LeNet(channels=(4, 6), hidden=(16,)), SmallCnn(channels=(4, 6), groups=2)
LEARNERS = {
    "direct": (Mlp(hidden=(20,)), lambda *a: MlpLearner(*a, "cpu", "direct")),
    "gram": (Mlp(hidden=(20,)), lambda *a: MlpLearner(*a, "cpu", "gram")),
    "direct, deep": (Mlp(hidden=(20, 12)), lambda *a: MlpLearner(*a, "cpu", "direct")),
    "gram, deep": (Mlp(hidden=(20, 12, 7)), lambda *a: MlpLearner(*a, "cpu", "gram")),
    "mlp": (Mlp(hidden=(20,)), make_learner),
    "softmax regression": (Mlp(hidden=()), make_learner),
    "linear": (Linear(), make_learner),
    "batched, linear": (Linear(), lambda *a: BatchedLearner(*a, "cpu")),
    "lenet": (LENET, make_learner),
    "cnn": (McMahanCnn(channels=(4, 6), hidden=(16,)), make_learner),
    "small_cnn": (SMALL, make_learner),
    "batched, small_cnn": (SMALL, lambda *a: BatchedLearner(*a, "cpu")),
    "module, mlp": (Mlp(hidden=(20,)), lambda *a: ModuleLearner(*a, "cpu")),
    "batched, mlp": (Mlp(hidden=(20,)), lambda *a: BatchedLearner(*a, "cpu")),
    "batched, lenet": (LENET, lambda *a: BatchedLearner(*a, "cpu")),
}


def jobs_for(
    model: Architecture, training: Training, sizes: tuple[int, ...], shape: Shape = SHAPE, regression: bool = False
) -> list[Job]:
    """Jobs of the given sizes on random samples, each with a base model of its own; equal calls give equal jobs."""
    rng = np.random.default_rng(0)
    jobs = []
    for number, m in enumerate(sizes):
        base = model.initial_parameters(shape, CLASSES, torch.Generator().manual_seed(number))
        texts = rng.integers(CLASSES, size=(m, *shape)).astype(np.float32)
        images = texts if isinstance(model, CharLstm) else rng.normal(size=(m, *shape)).astype(np.float32)
        labels = rng.normal(size=(m, CLASSES)).astype(np.float32) if regression else rng.integers(CLASSES, size=m)
        order = np.stack([rng.permutation(m) for _ in range(training.epochs)])
        for array in (base, images, labels, order):
            array.setflags(write=False)
        jobs.append(Job(base, images, labels, order, np.random.SFC64([3, number])))
    return jobs


def check(model: Architecture, make, training: Training, sizes, shape: Shape = SHAPE, regression: bool = False) -> None:
    """Train with both and compare models and losses."""
    jobs, same_jobs = (jobs_for(model, training, sizes, shape, regression) for _ in range(2))
    learner = make(model, training, shape, CLASSES)
    rows, expected = (np.full((len(jobs), learner.n_parameters), np.nan, np.float32) for _ in range(2))
    losses = learner.train(rows, jobs)
    expected_losses = reference.train(model, training, CLASSES, expected, same_jobs)
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5, atol=1e-5)
    assert np.abs(rows - np.stack([job.base for job in jobs])).max() > 1e-3, "training changed the models"


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", LEARNERS)
def test_classification_agrees_with_the_plain_loop(name: str, setting: str) -> None:
    model, make = LEARNERS[name]
    training = Training(lr=0.05, device="cpu", **SETTINGS[setting])
    check(model, make, training, (20, 16, 7, 20))  # a short last batch, even batches, less than one batch


@pytest.mark.parametrize("setting", ["all", "examples clipped", "examples clipped, noise"])
@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in ("mlp", "cnn", "gram, deep")])
def test_regression_agrees_with_the_plain_loop(name: str, setting: str) -> None:
    private = {
        "examples clipped": {"example_clip": 0.7},
        "examples clipped, noise": {"example_clip": 1.0, "example_noise": 0.8},
    }
    settings = SETTINGS.get(setting) or {"batch_size": 8, "epochs": 2, **private[setting]}
    check(*LEARNERS[name], Training(lr=0.02, device="cpu", **settings), (20, 7), regression=True)


@pytest.mark.parametrize("settings", [
    {"momentum": 0.9, "proximal_mu": 1.0}, {"gradient_clip": 0.3}, {"example_clip": 0.5, "example_noise": 0.5},
])  # fmt: skip
@pytest.mark.parametrize(
    ("model", "shape", "lr"), [(ResNet(groups=4), (3, 8, 8), 0.05), (CharLstm(embedding=3, hidden=7), (6,), 0.5)]
)
def test_deep_and_recurrent_networks_agree_with_the_plain_loop(
    model: Architecture, shape: Shape, lr: float, settings: dict[str, float]
) -> None:
    """Few steps: rounding grows from step to step in such networks."""
    check(model, make_learner, Training(lr=lr, batch_size=8, device="cpu", **settings), (20, 7), shape)


def test_a_recurrent_network_learns() -> None:
    """The label of a text is its first character."""
    model, training = CharLstm(embedding=3, hidden=7), Training(lr=1.0, batch_size=10, epochs=150, device="cpu")
    [job] = jobs_for(model, training, (40,), (6,))
    job = Job(job.base, job.images, job.images[:, 0].astype(np.int64), job.order)
    learner = make_learner(model, training, (6,), CLASSES)
    rows = np.empty((1, learner.n_parameters), np.float32)
    learner.train(rows, [job])
    before, after = (learner.evaluate(m, job.images, job.labels)[0] for m in (job.base, rows[0]))
    assert after < before / 2


@pytest.mark.parametrize(
    "setting",
    [
        {"momentum": 1e-5, "epochs": 6},  # the scale shrinks by 1e-5 a step until it is multiplied out
        {"momentum": 0.3, "epochs": 30},
        {"momentum": 0.9, "epochs": 40, "proximal_mu": 3.0},
        {"proximal_mu": 10.0, "epochs": 4},  # lr mu = 1: each step starts from the base model
        {"proximal_mu": 15.0, "epochs": 4},  # lr mu > 1
    ],
)
def test_coefficients_of_samples_survive_extreme_settings(setting: dict[str, float]) -> None:
    training = Training(lr=0.1, batch_size=4, device="cpu", **setting)
    check(Mlp(hidden=(7,)), LEARNERS["gram"][1], training, (11,), (1, 4, 4))
