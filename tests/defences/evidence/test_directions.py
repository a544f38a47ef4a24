"""Directions that clients have in common, guessed from the means of their updates."""

import numpy as np
import pytest

from asyncfl.defences.evidence.client_means import add_buffer, empty_means
from asyncfl.defences.evidence.directions import Direction, guess_directions

D = 200


def means_of(signals, noise=0.01):
    random, n = np.random.default_rng(3), len(signals)
    rows = (np.array(signals) + noise * random.standard_normal((n, D))).astype(np.float32)
    empty = empty_means(n)
    return add_buffer(empty, np.arange(n), rows, empty.products(rows), rows @ rows.T, np.full(n, noise), 4)


UP, SIDE = np.eye(2, D)


def test_directions_consist_of_the_agreeing_majority():
    first, second = guess_directions(means_of([UP] * 6 + [-UP] * 4))
    assert np.flatnonzero(first.weights).tolist() == list(range(6))
    assert np.flatnonzero(second.weights).tolist() == list(range(6))


def test_directions_do_not_depend_on_lengths():
    for guess in guess_directions(means_of([UP] * 6 + [-30 * UP] * 4)):
        assert np.flatnonzero(guess.weights).tolist() == list(range(6))


def test_direction_shorter_than_its_noise_has_no_signal():
    rows = np.tile(0.1 * UP, (4, 1)).astype(np.float32)
    empty = empty_means(4)
    means = add_buffer(empty, np.arange(4), rows, empty.products(rows), rows @ rows.T, np.full(4, 0.5), 4)
    _, (length,), (signal,) = Direction(np.ones(4)).without_clients(np.array([0]), means, D)
    assert length == pytest.approx(0.1)  # the noise is said to be .5 sqrt(200 / 3)
    assert signal == 0.0
    _, lengths, signals = Direction(np.array([1.0, 1.0, 0.0, 0.0])).without_clients(np.array([0, 3]), means, D)
    assert lengths.tolist() == [0.0, pytest.approx(0.1)]
    assert signals.tolist() == [0.0, 0.0]


def test_direction_leaves_out_the_measured_client_and_its_noise():
    means = means_of([UP + SIDE, UP, UP, UP], noise=0.05)
    direction = guess_directions(means)[0]
    (weights,), length, signal = direction.without_clients(np.array([0]), means, D)
    assert weights[0] == 0
    np.testing.assert_allclose(weights.sum(), 1)
    # 3 means of signal 1 and noise .05^2 * 200 = .5 each: length^2 = 1 + .5 / 3.
    np.testing.assert_allclose(length**2, 1 + 0.5 / 3, rtol=0.1)
    np.testing.assert_allclose(signal, 1, rtol=0.1)
