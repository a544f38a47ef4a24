"""Time-uniform bounds: their value, and that noise keeps to them however often one looks."""

import numpy as np
import pytest

from asyncfl.defences.evidence.bounds import deviation_bound, is_below_bound


def test_bound_of_the_normal_mixture_by_hand():
    # sqrt((3 + 1) log((3 + 1) / (1 * .1^2))) = sqrt(4 log 400)
    np.testing.assert_allclose(
        deviation_bound(np.array([3.0, 0.0]), 0.1, 1.0), [np.sqrt(4 * np.log(400)), np.sqrt(np.log(100))]
    )
    assert deviation_bound(np.zeros(2), 0.1, 0.0).tolist() == [0.0, 0.0]


def test_rho_depends_on_the_first_variance_only():
    """rho = 400, of the first variance: sqrt(502 log(502 / (400 * .025^2))) = 61.79. With rho = 4, from the later
    variances, it would be 33.61."""
    variances = np.array([100.0, 1.0, 1.0])
    assert is_below_bound(np.array([-61.9, 0.0, 0.0]), variances, 0.05)
    assert not is_below_bound(np.array([-61.7, 0.0, 0.0]), variances, 0.05)
    # Of a first variance that was only afterwards seen to be so large: sqrt(302 log(302 / (200 * .025^2))) = 48.50.
    known = np.array([50.0, 0.0, 0.0])
    assert is_below_bound(np.array([-48.6, 0.0, 0.0]), variances, 0.05, known_variances=known)
    assert not is_below_bound(np.array([-48.4, 0.0, 0.0]), variances, 0.05, known_variances=known)


def test_larger_of_the_two_bounds_counts():
    """rho = 4: sqrt(205 log(205 / (4 * .025^2))) = 48.2; rho = 400: 68.4."""
    assert not is_below_bound(np.array([-68.0, 0.0, 0.0]), np.array([1.0, 100.0, 100.0]), 0.05)
    assert is_below_bound(np.array([-69.0, 0.0, 0.0]), np.array([1.0, 100.0, 100.0]), 0.05)


@pytest.mark.parametrize("drift", [0.0, 0.3])
def test_error_rate_under_noise_alone_is_at_most_the_level(drift):
    """2000 clients, looked at after each of 15 updates: at level .05 at most 100 of them, and a few."""
    random, convicted = np.random.default_rng(1), 0
    for values in drift + random.standard_normal((2000, 15)):
        convicted += any(is_below_bound(values[:n], np.ones(n), 0.05) for n in range(1, 16))
    assert convicted <= 100


def test_clients_that_turn_malicious_are_detected():
    values = np.concatenate([np.full(20, 5.0), np.full(12, -2.5)])
    assert values.sum() > 0
    assert is_below_bound(values, np.ones(32), 1e-3)
    assert not is_below_bound(values[:24], np.ones(24), 1e-3)


def test_rows_are_independent_and_missing_values_do_not_count():
    random = np.random.default_rng(3)
    lengths, values, variances = [0, 1, 4, 6, 6], np.zeros((5, 6)), np.zeros((5, 6))
    for row, n in enumerate(lengths):
        values[row, 6 - n :], variances[row, 6 - n :] = random.standard_normal(n) - 3 * row, random.uniform(0.5, 2, n)
    seen, so_far = np.arange(6) >= 6 - np.array(lengths)[:, None], np.array([0, 3, 4, 9, 40])
    together = is_below_bound(values, variances, 0.01, so_far - 5, seen=seen)
    single = [
        n > 0 and bool(is_below_bound(values[row, 6 - n :], variances[row, 6 - n :], 0.01, int(so_far[row]) - n + 1))
        for row, n in enumerate(lengths)
    ]
    assert together.tolist() == single
    assert 0 < sum(single) < 5


def test_later_starts_have_a_smaller_error_level():
    """Of the last alone: sqrt(5 log(5 / (4 (.05 / 12)^2))) = 7.48; with the level of a first one it were 6.16."""
    assert not is_below_bound(np.array([10.0, 0.0, -7.4]), np.ones(3), 0.05)
    assert is_below_bound(np.array([10.0, 0.0, -7.5]), np.ones(3), 0.05)
