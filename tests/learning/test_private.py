"""DP-SGD: laws of clipping single examples and of the noise on each step, for every implementation of training.

That implementations agree with clipping one example after another is tested in `test_implementations.py`.
"""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.learning import Learner, make_learner
from asyncfl.learning.architecture import Architecture
from asyncfl.learning.example_gradients import ExampleGradients
from asyncfl.learning.job import Job
from asyncfl.learning.models import DigitsNet, LeNet, Mlp, SmallCnn
from asyncfl.learning.training import Training
from tests.learning.jobs import IMPLEMENTATIONS, Halves, Normed, Odd, random_jobs, train

SHAPE, CLASSES = (1, 8, 8), 4
LENET = LeNet(channels=(3, 4), hidden=(8,))
LEARNERS = {
    "direct": (Mlp(hidden=(9,)), IMPLEMENTATIONS["direct"]),
    "gram": (Mlp(hidden=(9,)), IMPLEMENTATIONS["gram"]),
    "lenet": (LENET, make_learner),
    "normed": (Normed(), make_learner),
    "odd": (Odd(), make_learner),
    "batched, lenet": (LENET, IMPLEMENTATIONS["batched"]),
}


def learner_of(name: str, **changes: object) -> Learner:
    model, make = LEARNERS[name]
    return make(model, Training(**{"lr": 0.05, "device": "cpu", **changes}), SHAPE, CLASSES)


def jobs_for(learner: Learner, sizes: tuple[int, ...] = (20, 16, 5)) -> list[Job]:
    return random_jobs(learner.model, SHAPE, CLASSES, sizes, learner.training.epochs, spread=True)


@pytest.mark.parametrize("name", LEARNERS)
@settings(max_examples=15, deadline=None)
@given(clip=st.floats(1e-4, 10), scale=st.floats(1e-3, 1e3), seed=st.integers(0, 2**16))
def test_no_example_moves_the_model_by_more_than_the_clip(name: str, clip: float, scale: float, seed: int) -> None:
    """With lr 1 a batch of one example moves it by the clip or by its gradient, whichever is shorter."""
    model, rng = LEARNERS[name][0], np.random.default_rng(seed)
    base = model.initial_parameters(SHAPE, CLASSES, torch.Generator().manual_seed(seed))
    images = (scale * rng.normal(size=(1, *SHAPE))).astype(np.float32)
    job = Job(base, images, rng.integers(CLASSES, size=1), np.zeros((1, 1), np.int64))
    gradient, clipped = (
        float(np.linalg.norm(train(learner_of(name, lr=1.0, batch_size=1, **change), job)[0][0].astype(float) - base))
        for change in ({}, {"example_clip": clip})
    )
    rounding = 1e-6 * (1 + float(np.linalg.norm(base)))  # of the sum base - g in float32
    assert clipped <= clip * (1 + 1e-4) + rounding
    assert clipped == pytest.approx(min(clip, gradient), rel=1e-3, abs=rounding)


@pytest.mark.parametrize("name", LEARNERS)
def test_noise_has_the_stated_standard_deviation_and_is_independent_between_clients(name: str) -> None:
    """With a tiny clip only noise remains, of standard deviation sqrt(sum of (lr z C / n)^2) over the steps."""
    learner = learner_of(name, lr=2.0, batch_size=8, example_clip=1e-3, example_noise=100.0)
    jobs = jobs_for(learner, (20, 20, 16))  # batches of 8, 8 and 4; 8, 8 and 4; 8 and 8
    moved = train(learner, *jobs)[0] - np.stack([job.base for job in jobs])
    stds = [0.2 * math.sqrt(2 / 64 + 1 / 16), 0.2 * math.sqrt(2 / 64 + 1 / 16), 0.2 * math.sqrt(2 / 64)]
    d = moved.shape[1]
    np.testing.assert_allclose(moved.std(1), stds, rtol=5 / math.sqrt(2 * d))
    assert np.all(np.abs(moved.mean(1)) < 5 * np.array(stds) / math.sqrt(d))
    assert np.all(np.abs(np.corrcoef(moved)[np.triu_indices(3, 1)]) < 5 / math.sqrt(d))


@pytest.mark.parametrize("name", LEARNERS)
def test_noise_depends_on_its_generator_alone(name: str) -> None:
    learner = learner_of(name, batch_size=8, epochs=2, example_clip=1.0, example_noise=1.0)
    first, _ = train(learner, *jobs_for(learner))
    torch.manual_seed(3)
    reverse, _ = train(learner, *jobs_for(learner)[::-1])
    np.testing.assert_allclose(reverse[::-1], first, atol=1e-6)
    other = [dataclasses.replace(job, noise=np.random.SFC64(99)) for job in jobs_for(learner)]
    assert not np.allclose(train(learner, *other)[0], first, atol=1e-3)
    one, two, _ = jobs_for(learner)
    with pytest.raises(ValueError, match="job 1 needs a generator for the noise"):
        train(learner, one, dataclasses.replace(two, noise=None))


@pytest.mark.parametrize("value", [1e20, -1e20, 1e38, math.inf, math.nan])
@pytest.mark.parametrize("name", LEARNERS)
def test_an_extreme_sample_moves_each_sum_by_at_most_the_clip(name: str, value: float) -> None:
    """The reference is training on the other samples alone, with a learning rate that restores the divisor n."""
    clip, lr, n = 0.5, 0.05, 8
    one = jobs_for(learner_of(name), (n,))[0]
    images = one.images.copy()
    images[3] = value
    order = np.array([[5, 3, 0, 1, 2, 7, 6, 4]])
    certain = one.base.copy()
    certain[-CLASSES:] = [1e4, 0, 0, 0]  # class 0 for certain: a gradient of 0 times an infinite norm of the input
    for base in (one.base, certain):
        job = dataclasses.replace(one, base=base, images=images, order=order)
        moved = train(learner_of(name, lr=lr, batch_size=n, example_clip=clip), job)[0][0]
        others = dataclasses.replace(
            job, images=np.delete(images, 3, 0), labels=np.delete(job.labels, 3), order=np.arange(n - 1)[None]
        )
        alone = train(learner_of(name, lr=lr * (n - 1) / n, batch_size=n, example_clip=clip), others)[0][0]
        assert np.isfinite(moved).all()
        assert np.linalg.norm((moved - alone).astype(float)) <= lr * clip / n * (1 + 1e-3) + 1e-5


@pytest.mark.parametrize("name", LEARNERS)
def test_a_client_whose_samples_are_all_extreme_moves_nothing(name: str) -> None:
    learner = learner_of(name, batch_size=4, example_clip=0.5)
    one = jobs_for(learner)[0]
    rows, losses = train(learner, dataclasses.replace(one, images=np.full_like(one.images, np.nan)))
    assert np.array_equal(rows[0], one.base)
    assert np.isnan(losses[0])


@pytest.mark.parametrize("value", [1e38, math.inf, math.nan])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_batch_with_an_extreme_gradient_moves_the_model_by_at_most_the_clip(name: str, value: float) -> None:
    one = jobs_for(learner_of(name), (8,))[0]
    images = one.images.copy()
    images[3] = value
    learner = learner_of(name, lr=0.1, batch_size="full", gradient_clip=0.5)
    moved = train(learner, dataclasses.replace(one, images=images))[0][0] - one.base
    assert np.isfinite(moved).all()
    assert np.linalg.norm(moved.astype(float)) <= 0.05 * (1 + 1e-3)


@pytest.mark.parametrize(
    ("model", "layerwise"),
    [(DigitsNet(), True), (SmallCnn(), True), (Normed(), True), (Odd(), False), (Halves(), False)],
)
def test_examples_are_differentiated_one_by_one_only_where_no_formula_holds(
    model: Architecture, layerwise: bool
) -> None:
    assert ExampleGradients(model.module((3, 12, 12), 10), (3, 12, 12), 10).layerwise == layerwise
