from __future__ import annotations

import numpy as np
import pytest

from asyncfl.learning import Job, Linear, Training
from asyncfl.learning.batched import BatchedLearner, schedule


def job(samples: int, epochs: int) -> Job:
    order = np.stack([np.roll(np.arange(samples), epoch) for epoch in range(epochs)])
    return Job(np.zeros(1, np.float32), np.zeros((samples, 1, 1, 1), np.float32), np.zeros(samples, np.int64), order)


def test_short_batches_and_finished_clients_are_filled_with_weight_zero() -> None:
    indices, weights = schedule([job(5, 2), job(2, 2)], Training(batch_size=3, epochs=2))
    assert indices.shape == weights.shape == (4, 2, 3)
    assert indices[:, 0].tolist() == [[0, 1, 2], [3, 4, 0], [4, 0, 1], [2, 3, 0]]
    assert np.allclose(weights[:, 0], [[1 / 3] * 3, [0.5, 0.5, 0], [1 / 3] * 3, [0.5, 0.5, 0]])
    assert indices[:2, 1, :2].tolist() == [[0, 1], [1, 0]]
    assert weights[:, 1].sum(1).tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("training", "numbers", "sizes"),
    [
        ({}, 1, [3, 2]),
        # The gradients of a client's batch are 4 times 40 numbers.
        ({"example_clip": 1.0}, 3 * 4 * 40, [3, 2]),
        ({"example_clip": 1.0}, 3 * 4 * 40 - 1, [2, 2, 1]),
        ({"example_clip": 1.0}, 1, [1] * 5),
    ],
)
def test_memory_limits_the_number_of_clients_trained_at_once(
    training: dict[str, float], numbers: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = BatchedLearner(Linear(), Training(batch_size=4, **training), (1, 1, 7), 5, "cpu")  # type: ignore[arg-type]
    learner.group, learner.numbers = 3, numbers
    groups: list[tuple[int, ...]] = []
    monkeypatch.setattr(learner, "_train_group", lambda *parts: groups.append(tuple(map(len, parts))))
    base = np.zeros(learner.n_parameters, np.float32)
    jobs = [
        Job(base, np.zeros((n, 1, 1, 7), np.float32), np.zeros(n, np.int64), np.arange(n)[None])
        for n in (2, 9, 4, 1, 3)
    ]
    learner.train(np.zeros((5, len(base)), np.float32), jobs)
    assert groups == [(size, size, size) for size in sizes]
    assert learner.n_parameters == 40
