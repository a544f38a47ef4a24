"""Directions that many updates share, and the one in which all classes descend."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.defences.client_means import add_buffer, empty_means
from asyncfl.defences.evidence.directions import guess_directions, leave_one_out
from asyncfl.learning.common_descent import common_descent, min_norm_point

CLIENTS = 5
D = 2000
UP, SIDE = np.eye(2, D)


def means_of(signals, noise=0.01):
    """Means of one update of each client."""
    random, n = np.random.default_rng(3), len(signals)
    rows = (np.array(signals) + noise * random.standard_normal((n, D))).astype(np.float32)
    empty = empty_means(n)
    return add_buffer(empty, np.arange(n), rows, empty.products(rows), rows @ rows.T, np.full(n, noise), 4)


def put(means, clients, updates, most=3):
    return add_buffer(
        means,
        np.array(clients),
        updates,
        means.products(updates),
        updates @ updates.T,
        np.full(len(clients), 0.5),
        most,
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, CLIENTS - 1), min_size=1, max_size=6), min_size=1, max_size=5))
def test_products_are_those_of_the_means(buffers):
    random, means = np.random.default_rng(0), empty_means(CLIENTS)
    sent = {client: [] for client in range(CLIENTS)}
    for clients in buffers:
        updates = random.standard_normal((len(clients), 30)).astype(np.float32)
        before = means.gram.copy()
        after = put(means, clients, updates)
        assert np.array_equal(means.gram, before)
        means = after
        for client, update in zip(clients, updates, strict=True):
            sent[client].append(update)
    rows = np.stack([np.zeros(30) if row is None else row for row in means.rows])
    np.testing.assert_allclose(means.gram, rows @ rows.T, atol=1e-4)
    for client, updates in sent.items():
        if 0 < len(updates) <= 3:
            np.testing.assert_allclose(rows[client], np.mean(updates, axis=0), atol=1e-5)
            np.testing.assert_allclose(means.noise_std[client], 0.5 / np.sqrt(len(updates)))
        assert means.counts[client] == len(updates)


@pytest.mark.parametrize("length", [1, 30])
def test_directions_consist_of_the_agreeing_majority_whatever_the_lengths(length):
    for guess in guess_directions(means_of([UP] * 6 + [-length * UP] * 4)):
        assert np.flatnonzero(guess).tolist() == list(range(6))


def test_direction_shorter_than_its_noise_has_no_signal():
    rows = np.tile(0.1 * UP, (4, 1)).astype(np.float32)
    empty = empty_means(4)
    means = add_buffer(empty, np.arange(4), rows, empty.products(rows), rows @ rows.T, np.full(4, 0.5), 4)
    _, (length,), (signal,) = leave_one_out(np.ones(4), np.array([0]), means, D)
    assert length == pytest.approx(0.1)  # the noise is said to be .5 sqrt(2000 / 3)
    assert signal == 0.0
    _, lengths, signals = leave_one_out(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 3]), means, D)
    assert lengths.tolist() == [0.0, pytest.approx(0.1)]
    assert signals.tolist() == [0.0, 0.0]


def test_direction_leaves_out_the_measured_client_and_its_noise():
    means = means_of([UP + SIDE, UP, UP, UP], noise=0.016)
    direction = guess_directions(means)[0]
    (weights,), length, signal = leave_one_out(direction, np.array([0]), means, D)
    assert weights[0] == 0
    np.testing.assert_allclose(weights.sum(), 1)
    # 3 means of signal 1 and noise .016^2 * 2000 = .512 each: length^2 = 1 + .512 / 3.
    np.testing.assert_allclose(length**2, 1 + 0.512 / 3, rtol=0.1)
    np.testing.assert_allclose(signal, 1, rtol=0.1)


def test_common_descent_of_two_classes_by_hand():
    direction, length = common_descent(np.array([[-2.0, 0.0], [0.0, -6.0]], dtype=np.float32))
    np.testing.assert_allclose(direction, [np.sqrt(0.5)] * 2, rtol=1e-6)
    # |r| = sqrt(1/2), the median of 2 and 6 is 4.
    assert length == pytest.approx(4 * np.sqrt(0.5))


def test_min_norm_point_satisfies_its_optimality_condition():
    points = np.array([[1.0, 0.2], [1.0, 0.0], [-0.6, 0.8]])
    weights = min_norm_point(points @ points.T)
    np.testing.assert_allclose(weights.sum(), 1)
    least = weights @ points
    assert (points @ least >= least @ least - 1e-6).all()
    assert weights[2] > 0.4


@pytest.mark.parametrize("gradients", [np.zeros((2, 3)), np.array([[1.0, 0, 0], [-1.0, 0, 0]])])
def test_opposite_descents_have_no_common_direction(gradients):
    direction, length = common_descent(gradients.astype(np.float32))
    assert length == 0
    assert not direction.any()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 10))
def test_every_mixture_of_classes_goes_along_the_common_descent(seed, classes):
    random = np.random.default_rng(seed)
    gradients = random.standard_normal((classes, 60)).astype(np.float32) * random.uniform(0.1, 9, (classes, 1))
    gradients = gradients.astype(np.float32)
    direction, length = common_descent(gradients)
    assert length > 0
    for shares in random.dirichlet(np.full(classes, 0.2), 20):
        assert -(shares @ gradients) @ direction > 0
