"""A group that stands apart is found where nothing else differs, and only there."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.defences.evidence.client_means import add_buffer, empty_means
from asyncfl.defences.evidence.contrast import contrast, residuals

D = 2000


def means_of(signals, noise=0.02, clients=None, seed=3):
    random, n = np.random.default_rng(seed), len(signals)
    rows = (np.array(signals) + noise * random.standard_normal((n, D))).astype(np.float32)
    empty = empty_means(clients or n)
    sent = np.arange(n)
    return add_buffer(empty, sent, rows, empty.products(rows), rows @ rows.T, np.full(n, noise), 4)


UP, SIDE, OTHER, THIRD = np.eye(4, D)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 12))
def test_common_parts_leave_no_residual(seed, n):
    g = np.random.default_rng(seed).standard_normal(n)
    common = 0.3 + g[:, None] + g
    np.fill_diagonal(common, 0)
    np.testing.assert_allclose(residuals(common), 0, atol=1e-12)


def test_residuals_of_two_groups_worked_out_by_hand():
    """Cosines of 1 within {0, 1} and within {2, 3}, 0 across."""
    cosines = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], dtype=float)
    # s_i = 1, s = 4: 1 - 2/2 + 4/6 within, 0 - 2/2 + 4/6 across.
    expected = np.where(cosines > 0, 2 / 3, -1 / 3) * (1 - np.eye(4))
    np.testing.assert_allclose(residuals(cosines), expected)


def test_separate_minority_gives_a_direction():
    (found,) = contrast(means_of([UP] * 7 + [0.7 * UP + 0.7 * SIDE] * 5))
    assert np.flatnonzero(found.weights > 0).tolist() == list(range(7))
    assert np.flatnonzero(found.weights < 0).tolist() == list(range(7, 12))


@pytest.mark.parametrize(
    "signals",
    [
        [UP] * 12,  # nothing but noise
        [UP + SIDE] * 3 + [UP + OTHER] * 3 + [UP + THIRD] * 3 + [UP] * 3,  # four domains
        [0 * UP] * 12,
    ],
)
def test_no_direction_if_clients_differ_in_other_ways(signals):
    assert contrast(means_of(signals, noise=0.0 if not np.any(signals) else 0.02)) == ()


def test_contrast_requires_more_than_half_of_all_clients():
    signals = [UP] * 7 + [0.7 * UP + 0.7 * SIDE] * 5
    assert contrast(means_of(signals, clients=23))
    assert contrast(means_of(signals, clients=24)) == ()
    assert contrast(means_of(signals[6:8])) == ()


def test_contrast_leaves_out_the_measured_client():
    means = means_of([UP] * 7 + [-UP] * 5, noise=0.01)
    (weights,), (length,), (signal,) = contrast(means)[0].without_clients(np.array([0]), means, D)
    assert weights[0] == 0
    np.testing.assert_allclose([weights[1:7].sum(), weights[7:].sum()], [1, -1])
    # UP - (-UP), and noise of (1/6 + 1/5) .01^2 2000.
    np.testing.assert_allclose([length**2, signal], [4 + 11 / 30 * 0.2, 2], rtol=0.02)
