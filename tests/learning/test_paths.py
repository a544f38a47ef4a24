"""Every path of training gives what the plain loop over the nn.Module gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from asyncfl.learning import reference
from asyncfl.learning.architecture import Architecture
from asyncfl.learning.batched import BatchedLearner
from asyncfl.learning.job import Job
from asyncfl.learning.learner import Learner, make_learner
from asyncfl.learning.mlp import MlpLearner
from asyncfl.learning.models import LeNet, Linear, McMahanCnn, Mlp, SmallCnn
from asyncfl.learning.module import ModuleLearner
from asyncfl.learning.training import Training

SHAPE = (1, 12, 12)
CLASSES = 5
SETTINGS = {
    "sgd": {"batch_size": 8},
    "momentum": {"batch_size": 8, "momentum": 0.9, "epochs": 3},
    "proximal": {"batch_size": 8, "proximal_mu": 2.0, "epochs": 3},
    "nbafl": {"batch_size": 8, "momentum": 0.9, "proximal_mu": 1.0, "epochs": 5},
    "clipped": {"batch_size": 8, "gradient_clip": 0.5, "epochs": 2},
    "all": {"batch_size": 8, "momentum": 0.5, "proximal_mu": 1.0, "gradient_clip": 0.5, "epochs": 3},
    "full": {"batch_size": "full"},
    "full, all": {
        "batch_size": "full",
        "momentum": 0.9,
        "proximal_mu": 1.0,
        "epochs": 4,
        "gradient_clip": 0.3,
    },
}
LEARNERS = {
    "direct": (Mlp(hidden=(20,)), lambda *a: MlpLearner(*a, "cpu", "direct")),
    "gram": (Mlp(hidden=(20,)), lambda *a: MlpLearner(*a, "cpu", "gram")),
    "auto": (Mlp(hidden=(20,)), make_learner),
    "direct, deep": (Mlp(hidden=(20, 12)), lambda *a: MlpLearner(*a, "cpu", "direct")),
    "gram, deep": (Mlp(hidden=(20, 12, 7)), lambda *a: MlpLearner(*a, "cpu", "gram")),
    "softmax regression": (Mlp(hidden=()), make_learner),
    "linear": (Linear(), make_learner),
    "batched, linear": (Linear(), lambda *a: BatchedLearner(*a, "cpu")),
    "lenet": (LeNet(channels=(4, 6), hidden=(16,)), make_learner),
    "cnn": (McMahanCnn(channels=(4, 6), hidden=(16,)), make_learner),
    "small_cnn": (SmallCnn(channels=(4, 6), groups=2), make_learner),
    "batched, small_cnn": (SmallCnn(channels=(4, 6), groups=2), lambda *a: BatchedLearner(*a, "cpu")),
    "module, mlp": (Mlp(hidden=(20,)), lambda *a: ModuleLearner(*a, "cpu")),
    "batched, mlp": (Mlp(hidden=(20,)), lambda *a: BatchedLearner(*a, "cpu")),
    "batched, lenet": (LeNet(channels=(4, 6), hidden=(16,)), lambda *a: BatchedLearner(*a, "cpu")),
}


def jobs_for(model: Architecture, training: Training, sizes: tuple[int, ...], seed: int = 0) -> list[Job]:
    """Jobs of the given sizes, each from a base model of its own, on random images."""
    rng = np.random.default_rng(seed)
    jobs = []
    for number, m in enumerate(sizes):
        base = model.initial_parameters(SHAPE, CLASSES, torch.Generator().manual_seed(number))
        images = rng.normal(size=(m, *SHAPE)).astype(np.float32)
        labels = rng.integers(CLASSES, size=m)
        order = np.stack([rng.permutation(m) for _ in range(training.epochs)])
        for array in (base, images, labels, order):
            array.setflags(write=False)
        jobs.append(Job(base, images, labels, order))
    return jobs


def rows_for(learner: Learner, jobs: list[Job]) -> np.ndarray:
    return np.full((len(jobs), learner.n_parameters), np.nan, np.float32)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("path", LEARNERS)
def test_agrees_with_the_plain_loop(path: str, setting: str) -> None:
    model, make = LEARNERS[path]
    training = Training(lr=0.05, device="cpu", **SETTINGS[setting])
    jobs = jobs_for(model, training, (20, 16, 7, 20))  # short last batch, even batches, less than one batch
    learner = make(model, training, SHAPE, CLASSES)
    rows, expected = rows_for(learner, jobs), rows_for(learner, jobs)
    losses = learner.train(rows, jobs)
    expected_losses = reference.train(model, training, CLASSES, expected, jobs)
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(losses, expected_losses, rtol=0, atol=1e-5)
    assert np.abs(rows - np.stack([job.base for job in jobs])).max() > 1e-3
