"""Poisson batches of DP-SGD: law of the draws, and steps divided by the expected number of samples."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from asyncfl.learning import Job, Learner
from asyncfl.learning.job import poisson_batches
from asyncfl.learning.models import LeNet, Mlp
from asyncfl.learning.training import Training
from asyncfl.learning.weights import module_with_parameters
from tests.learning.jobs import IMPLEMENTATIONS, random_jobs, train

SHAPE, CLASSES, EPOCHS = (1, 8, 8), 4, 3
MLP, LENET = Mlp(hidden=(9,)), LeNet(channels=(3, 4), hidden=(8,))
LEARNERS = {
    "direct": (MLP, "direct"),
    "gram": (MLP, "gram"),
    "module": (LENET, "module"),
    "batched": (LENET, "batched"),
}
DP = {"lr": 0.05, "batch_size": 2, "epochs": EPOCHS, "batches": "poisson", "example_clip": 0.5, "example_noise": 1.0}


def jobs_of(learner: Learner, *sizes: int) -> list[Job]:
    t = learner.training
    jobs = random_jobs(learner.model, SHAPE, CLASSES, sizes, EPOCHS, spread=True)
    drawn = [poisson_batches(n, t.batch_of(n), EPOCHS, np.random.default_rng(n)) for n in sizes]
    return [replace(job, order=order) for job, order in zip(jobs, drawn, strict=True)]


def learner_of(name: str, **changes: object) -> Learner:
    model, way = LEARNERS[name]
    return IMPLEMENTATIONS[way](model, Training(**DP | {"device": "cpu"} | changes), SHAPE, CLASSES)


def test_each_sample_enters_each_batch_on_its_own_with_the_same_probability() -> None:
    samples, size, epochs = 50, 8, 2000
    order = poisson_batches(samples, size, epochs, np.random.default_rng(1))
    assert {len(epoch) for epoch in order} == {7}  # as many steps as with shuffled batches
    entered = np.zeros((epochs * 7, samples))
    for row, batch in enumerate(batch for epoch in order for batch in epoch):
        entered[row, batch] += 1
    assert entered.max() == 1
    q, n = size / samples, len(entered)
    spread = math.sqrt(q * (1 - q) / n)
    assert abs(entered.mean(0) - q).max() < 5 * spread
    # Sizes are binomial, samples independent of each other and from step to step.
    sizes = entered.sum(1)
    assert sizes.mean() == pytest.approx(size, abs=5 * math.sqrt(samples * q * (1 - q) / n))
    assert sizes.var() == pytest.approx(samples * q * (1 - q), rel=5 * math.sqrt(2 / n))
    pairs = np.corrcoef(entered.T)[np.triu_indices(samples, 1)]
    assert abs(pairs).max() < 5.5 / math.sqrt(n)
    assert abs(np.corrcoef(sizes[1:], sizes[:-1])[0, 1]) < 5 / math.sqrt(n)


def by_hand(learner: Learner, job: Job) -> np.ndarray:
    """Return the model after training one example after another."""
    t, module = learner.training, module_with_parameters(learner.model, SHAPE, CLASSES, job.base)
    noise, clip = learner._step_noise(job), t.example_clip or 0.0
    weights = list(module.parameters())
    start = [w.detach().clone() for w in weights]
    velocity = [torch.zeros_like(w) for w in weights]
    for batch in (batch for epoch in job.order for batch in epoch):
        total = torch.zeros(len(job.base))
        for one in batch.tolist():
            x, y = torch.from_numpy(job.images[one : one + 1]), torch.from_numpy(job.labels[one : one + 1])
            gradient = torch.autograd.grad(torch.nn.functional.cross_entropy(module(x), y), weights)
            flat = torch.cat([part.reshape(-1) for part in gradient])
            total += flat * min(1.0, clip / float(flat.norm()))
        if noise is not None:
            total += t.example_noise * clip * torch.from_numpy(noise.draw())
        parts = torch.split(total / t.batch_of(job.samples), [w.numel() for w in weights])
        with torch.no_grad():
            for w, v, part, first in zip(weights, velocity, parts, start, strict=True):
                v.mul_(t.momentum).add_(part.view_as(w) + t.proximal_mu * (w - first))
                w.sub_(t.lr * v)
    return torch.cat([w.detach().reshape(-1) for w in weights]).numpy()


@pytest.mark.parametrize("changes", [{}, {"example_noise": 0.0}, {"momentum": 0.5, "proximal_mu": 0.3}])
@pytest.mark.parametrize("name", LEARNERS)
def test_steps_are_divided_by_the_expected_number_of_samples(name: str, changes: dict[str, float]) -> None:
    learner = learner_of(name, **changes)
    jobs, same = jobs_of(learner, 20, 7, 1), jobs_of(learner, 20, 7, 1)
    assert min(len(batch) for job in jobs for epoch in job.order for batch in epoch) == 0
    rows, losses = train(learner, *jobs)
    np.testing.assert_allclose(rows, [by_hand(learner, job) for job in same], rtol=0, atol=2e-6)
    assert np.isfinite(losses).all()


@pytest.mark.parametrize("name", LEARNERS)
def test_a_step_without_samples_applies_the_noise_alone(name: str) -> None:
    learner = learner_of(name, epochs=1, lr=2.0, example_clip=3.0)
    [job] = random_jobs(learner.model, SHAPE, CLASSES, (4,))
    nothing = np.empty(0, np.int64)
    rows, losses = train(learner, replace(job, order=((nothing, nothing),)))
    moved = rows[0] - job.base
    d = len(moved)
    assert moved.std() == pytest.approx(2 * 3 / 2 * math.sqrt(2), rel=5 / math.sqrt(2 * d))
    assert np.isnan(losses).all()  # there is no sample to measure it on


def test_an_order_of_shuffled_batches_is_refused() -> None:
    learner = learner_of("module")
    with pytest.raises(ValueError, match="order of job 0 must have epochs of \\[3, 3, 3\\] Poisson batches"):
        train(learner, *random_jobs(learner.model, SHAPE, CLASSES, (5,), EPOCHS))


@pytest.mark.parametrize("changes", [{"example_clip": None, "example_noise": 0.0}, {"batch_size": "full"}])
def test_poisson_batches_need_clipped_examples_and_a_batch_size(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="batches: poisson is for DP-SGD: set example_clip and a number"):
        Training(**DP | changes)
