from __future__ import annotations

import numpy as np
import pytest
import torch

from asyncfl.learning import reference
from asyncfl.learning.job import Job
from asyncfl.learning.learner import make_learner
from asyncfl.learning.models import CharLstm
from asyncfl.learning.module import ModuleLearner
from asyncfl.learning.training import Training

LENGTH, CHARACTERS = 6, 5
MODEL = CharLstm(embedding=3, hidden=7)


def jobs(training: Training, sizes: tuple[int, ...]) -> list[Job]:
    rng = np.random.default_rng(0)
    found = []
    for number, m in enumerate(sizes):
        base = MODEL.initial_parameters((LENGTH,), CHARACTERS, torch.Generator().manual_seed(number))
        texts = rng.integers(CHARACTERS, size=(m, LENGTH)).astype(np.float32)
        order = np.stack([rng.permutation(m) for _ in range(training.epochs)])
        found.append(Job(base, texts, texts[:, 0].astype(np.int64), order, np.random.SFC64(number)))
    return found


def test_it_has_the_parameters_of_the_published_network() -> None:
    """820,522 for 90 characters, as TensorFlow counts it; torch has two biases in each LSTM layer, of 4 * 256."""
    assert CharLstm().layout((80,), 90).n_parameters == 820_522 + 2 * 4 * 256


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 8, "momentum": 0.9, "proximal_mu": 1.0, "epochs": 2},
        {"batch_size": 8, "gradient_clip": 0.1},
        {"batch_size": 4, "example_clip": 0.1, "example_noise": 0.5},
    ],
)
def test_training_agrees_with_the_plain_loop(settings: dict[str, float]) -> None:
    training = Training(lr=0.5, device="cpu", **settings)
    work = jobs(training, (20, 7))
    learner = make_learner(MODEL, training, (LENGTH,), CHARACTERS)
    assert isinstance(learner, ModuleLearner)
    rows, expected = (np.empty((2, learner.n_parameters), np.float32) for _ in range(2))
    losses = learner.train(rows, work)
    work = jobs(training, (20, 7))  # their noise is drawn again
    wanted = reference.train(MODEL, training, CHARACTERS, expected, work)
    assert losses == pytest.approx(wanted, abs=1e-5)
    assert np.abs(rows - expected).max() < 1e-5
    assert np.abs(rows - work[0].base).max() > 1e-3


def test_it_learns_what_came_first() -> None:
    training = Training(lr=2.0, batch_size=10, epochs=150, momentum=0.5, device="cpu")
    [job] = jobs(training, (40,))
    learner = make_learner(MODEL, training, (LENGTH,), CHARACTERS)
    rows = np.empty((1, learner.n_parameters), np.float32)
    learner.train(rows, [job])
    assert learner.evaluate(rows[0], job.images, job.labels)[1] > 0.9


def test_what_is_no_text_is_refused() -> None:
    [fault] = MODEL.faults((1, 28, 28), 10)
    assert fault.message == "char_lstm reads texts (length,), got inputs of shape (1, 28, 28); take another network"
    assert list(MODEL.faults((LENGTH,), CHARACTERS)) == []
