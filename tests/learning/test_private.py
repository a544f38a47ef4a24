"""DP-SGD: clipping of single examples and noise on each step, in every implementation of training."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.learning import reference
from asyncfl.learning.architecture import Architecture, Shape
from asyncfl.learning.batched import BatchedLearner
from asyncfl.learning.job import Job
from asyncfl.learning.learner import make_learner
from asyncfl.learning.mlp import MlpLearner
from asyncfl.learning.models import LeNet, McMahanCnn, Mlp
from asyncfl.learning.module import ModuleLearner
from asyncfl.learning.training import Training

SHAPE, CLASSES = (1, 8, 8), 4
NOISE_SEED = 7


class Normed(Architecture):
    """GroupNorm behind convolutions and linear layers, with and without bias."""

    kind: str = "tests:Normed"

    def module(self, shape: Shape, classes: int) -> torch.nn.Module:
        from torch import nn

        pixels = shape[1] * shape[2] // 4
        return nn.Sequential(
            nn.Conv2d(shape[0], 4, 3, stride=2, padding=1, bias=False),
            nn.GroupNorm(2, 4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(4 * pixels, 12, bias=False),
            nn.GroupNorm(2, 12),
            nn.Linear(12, classes),
        )


class Odd(Architecture):
    """A layer without a formula, and a ReLU that overwrites a layer's output."""

    kind: str = "tests:Odd"

    def module(self, shape: Shape, classes: int) -> torch.nn.Module:
        from torch import nn

        pixels = math.prod(shape)
        return nn.Sequential(
            nn.Flatten(), nn.LayerNorm(pixels), nn.Linear(pixels, 6), nn.ReLU(inplace=True), nn.Linear(6, classes)
        )


class InPlace(Architecture):
    """Layers with formulas, but a ReLU overwrites the output of one of them."""

    kind: str = "tests:InPlace"

    def module(self, shape: Shape, classes: int) -> torch.nn.Module:
        from torch import nn

        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 6), nn.ReLU(inplace=True), nn.Linear(6, classes))


LENET = LeNet(channels=(3, 4), hidden=(8,))
LEARNERS = {
    "direct": (Mlp(hidden=(9,)), lambda *a: MlpLearner(*a, "cpu", "direct")),
    "gram": (Mlp(hidden=(9,)), lambda *a: MlpLearner(*a, "cpu", "gram")),
    "direct, deep": (Mlp(hidden=(9, 6)), lambda *a: MlpLearner(*a, "cpu", "direct")),
    "gram, deep": (Mlp(hidden=(9, 6, 5)), lambda *a: MlpLearner(*a, "cpu", "gram")),
    "softmax regression": (Mlp(hidden=()), make_learner),
    "lenet": (LENET, make_learner),
    "cnn": (McMahanCnn(channels=(3, 4), hidden=(8,)), make_learner),
    "normed": (Normed(), make_learner),
    "odd": (Odd(), make_learner),
    "in place": (InPlace(), make_learner),
    "module, mlp": (Mlp(hidden=(9,)), lambda *a: ModuleLearner(*a, "cpu")),
    "batched, mlp": (Mlp(hidden=(9,)), lambda *a: BatchedLearner(*a, "cpu")),
    "batched, lenet": (LENET, lambda *a: BatchedLearner(*a, "cpu")),
    "batched, normed": (Normed(), lambda *a: BatchedLearner(*a, "cpu")),
}
SETTINGS = {
    "clipped": {"batch_size": 8, "example_clip": 0.5, "epochs": 2},
    "clipped, all": {"batch_size": 8, "example_clip": 0.5, "epochs": 3, "momentum": 0.9, "proximal_mu": 1.0},
    "clipped, one step": {"batch_size": "full", "example_clip": 0.5},
    "noise": {"batch_size": 8, "example_clip": 1.0, "example_noise": 0.8},
    "noise, momentum": {"batch_size": 8, "example_clip": 1.0, "example_noise": 0.8, "epochs": 2, "momentum": 0.9},
    "noise, proximal": {"batch_size": 8, "example_clip": 1.0, "example_noise": 0.8, "epochs": 2, "proximal_mu": 2.0},
    "noise, all": {
        "batch_size": "full",
        "example_clip": 0.7,
        "example_noise": 2.0,
        "epochs": 4,
        "momentum": 0.5,
        "proximal_mu": 1.0,
    },
}


def training_of(**changes: object) -> Training:
    return Training(**{"lr": 0.05, "device": "cpu", **changes})


def jobs_for(model: Architecture, training: Training, sizes: tuple[int, ...] = (20, 16, 5)) -> list[Job]:
    """Jobs of the given sizes; equal calls give equal jobs with fresh generators."""
    rng = np.random.default_rng(0)
    jobs = []
    for number, m in enumerate(sizes):
        base = model.initial_parameters(SHAPE, CLASSES, torch.Generator().manual_seed(number))
        images = rng.normal(size=(m, *SHAPE)).astype(np.float32)
        images *= rng.uniform(0.1, 3, size=(m, 1, 1, 1)).astype(np.float32)  # some gradients short, some long
        order = np.stack([rng.permutation(m) for _ in range(training.epochs)])
        noise = np.random.SFC64([NOISE_SEED, number])
        jobs.append(Job(base, images, rng.integers(CLASSES, size=m), order, noise))
    return jobs


def train(name: str, training: Training, jobs: list[Job]) -> tuple[np.ndarray, np.ndarray]:
    """Models and losses of the implementation `name`."""
    model, make = LEARNERS[name]
    learner = make(model, training, SHAPE, CLASSES)
    rows = np.full((len(jobs), learner.n_parameters), np.nan, np.float32)
    return rows, learner.train(rows, jobs)


def by_reference(model: Architecture, training: Training, jobs: list[Job]) -> tuple[np.ndarray, np.ndarray]:
    rows = np.full((len(jobs), len(jobs[0].base)), np.nan, np.float32)
    return rows, reference.train(model, training, CLASSES, rows, jobs)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", LEARNERS)
def test_agrees_with_one_example_after_another(name: str, setting: str) -> None:
    model, training = LEARNERS[name][0], training_of(**SETTINGS[setting])
    rows, losses = train(name, training, jobs_for(model, training))
    expected, expected_losses = by_reference(model, training, jobs_for(model, training))
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(losses, expected_losses, rtol=0, atol=1e-5)
    plain = training_of(**{k: v for k, v in SETTINGS[setting].items() if not k.startswith("example")})
    unclipped, _ = by_reference(model, plain, jobs_for(model, plain))
    assert np.abs(unclipped - expected).max() > 1e-3, "clipping changes the models"


@pytest.mark.parametrize("name", ["direct", "gram", "lenet", "normed", "odd", "batched, lenet"])
@settings(max_examples=15, deadline=None)
@given(clip=st.floats(1e-4, 10), scale=st.floats(1e-3, 1e3), seed=st.integers(0, 2**16))
def test_no_example_moves_the_model_by_more_than_the_clip(name: str, clip: float, scale: float, seed: int) -> None:
    """With lr 1 a batch of one example moves it by the clip or by its gradient, whichever is shorter."""
    model, rng = LEARNERS[name][0], np.random.default_rng(seed)
    base = model.initial_parameters(SHAPE, CLASSES, torch.Generator().manual_seed(seed))
    images = (scale * rng.normal(size=(1, *SHAPE))).astype(np.float32)
    job = Job(base, images, rng.integers(CLASSES, size=1), np.zeros((1, 1), np.int64))
    plain = training_of(lr=1.0, batch_size=1)
    gradient, clipped = (
        float(np.linalg.norm(train(name, training, [job])[0][0].astype(float) - base))
        for training in (plain, plain.model_copy(update={"example_clip": clip}))
    )
    rounding = 1e-6 * (1 + float(np.linalg.norm(base)))  # of the sum base - g in float32
    assert clipped <= clip * (1 + 1e-4) + rounding
    assert clipped == pytest.approx(min(clip, gradient), rel=1e-3, abs=rounding)


@pytest.mark.parametrize("name", LEARNERS)
def test_noise_has_the_stated_standard_deviation_and_is_independent_between_clients(name: str) -> None:
    """With a tiny clip only noise remains, of standard deviation sqrt(sum of (lr z C / n)^2) over the steps."""
    model, training = LEARNERS[name][0], training_of(lr=2.0, batch_size=8, example_clip=1e-3, example_noise=100.0)
    jobs = jobs_for(model, training, (20, 20, 16))  # batches of 8, 8 and 4; 8, 8 and 4; 8 and 8
    moved = train(name, training, jobs)[0] - np.stack([job.base for job in jobs])
    stds = [0.2 * math.sqrt(2 / 64 + 1 / 16), 0.2 * math.sqrt(2 / 64 + 1 / 16), 0.2 * math.sqrt(2 / 64)]
    d = moved.shape[1]
    np.testing.assert_allclose(moved.std(1), stds, rtol=5 / math.sqrt(2 * d))
    assert np.all(np.abs(moved.mean(1)) < 5 * np.array(stds) / math.sqrt(d))
    assert np.all(np.abs(np.corrcoef(moved)[np.triu_indices(3, 1)]) < 5 / math.sqrt(d))


@pytest.mark.parametrize("name", LEARNERS)
def test_noise_depends_on_its_generator_alone(name: str) -> None:
    model, training = LEARNERS[name][0], training_of(batch_size=8, epochs=2, example_clip=1.0, example_noise=1.0)
    first, _ = train(name, training, jobs_for(model, training))
    torch.manual_seed(3)
    reverse, _ = train(name, training, jobs_for(model, training)[::-1])
    np.testing.assert_allclose(reverse[::-1], first, atol=1e-6)
    other = [dataclasses.replace(job, noise=np.random.SFC64(99)) for job in jobs_for(model, training)]
    assert not np.allclose(train(name, training, other)[0], first, atol=1e-3)
    one, two, _ = jobs_for(model, training)
    with pytest.raises(ValueError, match="job 1 needs a generator for the noise"):
        train(name, training, [one, dataclasses.replace(two, noise=None)])


@pytest.mark.parametrize("name", ["direct", "gram", "lenet", "normed", "odd", "batched, lenet"])
def test_gradients_of_zero_and_nan(name: str) -> None:
    model, training = LEARNERS[name][0], training_of(batch_size=4, example_clip=0.5)
    good, _, bad = jobs_for(model, training)
    bad = dataclasses.replace(bad, images=np.full_like(bad.images, np.nan))
    rows, losses = train(name, training, [bad, good])
    assert not np.isfinite(rows[0]).all()
    assert np.isnan(losses[0])
    assert np.isfinite(rows[1]).all()
    certain = np.zeros_like(good.base)
    certain[-CLASSES] = 1e4  # class 0 for certain: the cross-entropy and its gradient are exactly 0
    sure = dataclasses.replace(good, base=certain, labels=np.zeros_like(good.labels))
    assert np.array_equal(train(name, training, [sure])[0][0], certain)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_batch_may_be_larger_than_the_chunk_that_is_differentiated_at_once(name: str) -> None:
    model, training, sizes = LEARNERS[name][0], training_of(batch_size="full", example_clip=0.5), (70, 33, 40)
    rows, _ = train(name, training, jobs_for(model, training, sizes))
    expected, _ = by_reference(model, training, jobs_for(model, training, sizes))
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)
