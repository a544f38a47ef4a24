from __future__ import annotations

import numpy as np

from asyncfl.learning import Job, Training
from asyncfl.learning.batched import schedule


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
