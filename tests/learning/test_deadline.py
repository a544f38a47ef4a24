"""Trainings that have to stop: what counts is the model at the end of the last epoch in time, on every path."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from asyncfl.learning import Job, Training
from asyncfl.learning.batched import BatchedLearner
from asyncfl.learning.deadline import Deadline, NoEpochError
from asyncfl.learning.learner import Learner
from asyncfl.learning.mlp import MlpLearner
from asyncfl.learning.models import Mlp
from asyncfl.learning.module import ModuleLearner

EPOCHS, STEPS = 4, 3
TRAINING = Training(lr=0.2, momentum=0.5, proximal_mu=0.3, batch_size=2, epochs=EPOCHS)
PATHS: dict[str, Callable[[], Learner]] = {
    "gram": lambda: MlpLearner(Mlp(hidden=[5]), TRAINING, (1, 4, 4), 3, way="gram"),
    "direct": lambda: MlpLearner(Mlp(hidden=[5]), TRAINING, (1, 4, 4), 3, way="direct"),
    "module": lambda: ModuleLearner(Mlp(hidden=[5]), TRAINING, (1, 4, 4), 3, "cpu"),
    "batched": lambda: BatchedLearner(Mlp(hidden=[5]), TRAINING, (1, 4, 4), 3, "cpu"),
}


def ticking(step_s: float = 1.0) -> Callable[[], float]:
    """A clock that goes on by so many seconds each time that it is looked at."""
    at = [-step_s]

    def now() -> float:
        at[0] += step_s
        return at[0]

    return now


def job(epochs: int, deadline: Deadline | None = None) -> Job:
    random = np.random.default_rng(0)
    return Job(
        random.normal(size=103).astype(np.float32),
        random.normal(size=(6, 1, 4, 4)).astype(np.float32),
        random.integers(0, 3, 6),
        np.stack([np.random.default_rng(epoch).permutation(6) for epoch in range(epochs)]),
        deadline=deadline,
    )


def trained(learner: Learner, one: Job) -> tuple[Any, float]:
    row = np.full((1, 103), 7.0, np.float32)
    [loss] = learner.train(row, [one])
    return row[0], loss


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("seconds", "done"),
    # Each step takes a second, each epoch three of them; an epoch that ends with the deadline counts.
    [(3.0, 1), (5.5, 1), (6.0, 2), (8.9, 2), (9.0, 3), (12.0, 4), (99.0, 4)],
)
def test_the_model_is_that_of_a_task_with_as_many_epochs(path: str, seconds: float, done: int) -> None:
    learner, deadline = PATHS[path](), Deadline(seconds, ticking())
    model, loss = trained(learner, job(EPOCHS, deadline))
    assert deadline.epochs_done == done
    assert deadline.done_of(EPOCHS) == (None if done == EPOCHS else done)
    expected, expected_loss = trained(learner, job(done))
    np.testing.assert_allclose(model, expected, atol=2e-6)
    assert loss == pytest.approx(expected_loss, rel=1e-5)


@pytest.mark.parametrize("path", PATHS)
def test_who_has_done_no_epoch_has_nothing(path: str) -> None:
    deadline = Deadline(2.9, ticking())
    model, loss = trained(PATHS[path](), job(EPOCHS, deadline))
    assert (model == 7.0).all()
    assert math.isnan(loss)
    with pytest.raises(NoEpochError):
        deadline.done_of(EPOCHS)


@pytest.mark.parametrize("path", PATHS)
def test_a_stopped_job_leaves_nothing_behind_for_the_next(path: str) -> None:
    learner = PATHS[path]()
    trained(learner, job(EPOCHS, Deadline(4.5, ticking())))
    after, _ = trained(learner, replace(job(EPOCHS)))
    fresh, _ = trained(PATHS[path](), job(EPOCHS))
    np.testing.assert_array_equal(after, fresh)
