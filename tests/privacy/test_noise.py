"""The noise itself: its distribution, and that no two releases share it."""

import numpy as np
import pytest
from scipy.stats import kstest

from asyncfl.privacy.noise import add_gaussian
from asyncfl.streams import Streams

SIZE = 20_000


def drawn(std=1.0, seed=0, purpose="client_noise", client=0, task=0):
    vector = np.zeros(SIZE, dtype=np.float32)
    add_gaussian(vector, std, Streams(seed), purpose, client, task)
    return vector


def test_is_gaussian_with_the_standard_deviation_asked_for():
    noise = drawn(std=0.02589593)
    assert noise.mean() == pytest.approx(0, abs=4 * 0.0259 / SIZE**0.5)
    assert noise.std() == pytest.approx(0.02589593, rel=4 / (2 * SIZE) ** 0.5)
    assert kstest(noise / 0.02589593, "norm").pvalue > 0.01


def test_is_added_to_what_is_there():
    vector = np.full(SIZE, 3, dtype=np.float32)
    add_gaussian(vector, 0.5, Streams(0), "client_noise", 0, 0)
    assert vector - 3 == pytest.approx(0.5 * drawn(), abs=1e-5)


def test_no_two_releases_share_noise():
    rows = [
        drawn(),
        drawn(task=1),
        drawn(client=1),
        drawn(seed=1),
        drawn(purpose="server_noise"),
    ]
    correlations = np.corrcoef(rows)[np.triu_indices(len(rows), 1)]
    assert np.abs(correlations).max() < 5 / SIZE**0.5


def test_the_same_stream_draws_the_same():
    assert (drawn() == drawn()).all()


def test_without_deviation_nothing_changes():
    vector = np.ones(3, dtype=np.float32)
    add_gaussian(vector, 0.0, Streams(0), "client_noise")
    assert vector.tolist() == [1, 1, 1]
