"""Training with a time limit: the result is the model after the last epoch that ended in time."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from asyncfl.learning import Job, Training
from asyncfl.learning.job import Deadline, NoEpochError
from asyncfl.learning.learner import Learner
from asyncfl.learning.models import Mlp
from tests.learning.jobs import IMPLEMENTATIONS, random_jobs

EPOCHS = 4
TRAINING = Training(lr=0.2, momentum=0.5, proximal_mu=0.3, batch_size=2, epochs=EPOCHS)
MODEL, SHAPE, CLASSES = Mlp(hidden=[5]), (1, 4, 4), 3


def learner_of(name: str) -> Learner:
    return IMPLEMENTATIONS[name](MODEL, TRAINING, SHAPE, CLASSES)


def ticking(step_s: float = 1.0) -> Callable[[], float]:
    """Return a clock that advances by `step_s` each time it is read."""
    at = [-step_s]

    def now() -> float:
        at[0] += step_s
        return at[0]

    return now


def job(epochs: int, deadline: Deadline | None = None) -> Job:
    [one] = random_jobs(MODEL, SHAPE, CLASSES, (6,), EPOCHS)
    return replace(one, order=one.order[:epochs], deadline=deadline)


def trained(learner: Learner, one: Job) -> tuple[np.ndarray, float]:
    row = np.full((1, learner.n_parameters), 7.0, np.float32)
    [loss] = learner.train(row, [one])
    return row[0], loss


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("seconds", "done"),
    # Each step takes a second, each epoch three; an epoch that ends exactly at the deadline counts.
    [(3.0, 1), (5.5, 1), (6.0, 2), (8.9, 2), (9.0, 3), (12.0, 4), (99.0, 4)],
)
def test_the_model_is_that_of_a_task_with_the_completed_epochs(name: str, seconds: float, done: int) -> None:
    learner, deadline = learner_of(name), Deadline(seconds, ticking())
    model, loss = trained(learner, job(EPOCHS, deadline))
    assert deadline.epochs_done == done
    assert deadline.epochs_in_time(EPOCHS) == (None if done == EPOCHS else done)
    expected, expected_loss = trained(learner, job(done))
    np.testing.assert_allclose(model, expected, atol=2e-6)
    assert loss == pytest.approx(expected_loss, rel=1e-5)


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_without_a_completed_epoch_there_is_no_model(name: str) -> None:
    deadline = Deadline(2.9, ticking())
    model, loss = trained(learner_of(name), job(EPOCHS, deadline))
    assert (model == 7.0).all()
    assert math.isnan(loss)
    with pytest.raises(NoEpochError):
        deadline.epochs_in_time(EPOCHS)


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_a_stopped_job_does_not_affect_the_next(name: str) -> None:
    learner = learner_of(name)
    trained(learner, job(EPOCHS, Deadline(4.5, ticking())))
    after, _ = trained(learner, job(EPOCHS))
    fresh, _ = trained(learner_of(name), job(EPOCHS))
    np.testing.assert_array_equal(after, fresh)
