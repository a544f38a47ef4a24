"""Variance of clients' gains, time-uniform bounds, and error rates of bans: values by hand, and laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from asyncfl.defences.evidence.gains import MAX_VARIANCE_RATIO, PRIOR_UPDATES, GainHistory, estimate_variances
from asyncfl.defences.evidence.side_test import SideTest, deviation_bound, is_below_bound


def history_of(gained, noise=0.0):
    """(clients, updates) gained along a step of length 1, kept as the last of 32."""
    gained = np.asarray(gained, dtype=np.float64)
    clients, updates = gained.shape
    rows = np.zeros((3, clients, 32))
    if updates:
        rows[:, :, 32 - updates :] = gained, np.ones_like(gained), np.full_like(gained, noise**2)
    return GainHistory(*rows, np.full(clients, updates))


def spread(gained):
    history = history_of(gained)
    return estimate_variances(history, history.gained.sum(axis=1) / history.expected.sum(axis=1), history.counts > 0)


def test_variances_by_hand():
    """Variances 2, 2 and 8 of one degree of freedom; the median of chi^2_1 is about (7/9)^3."""
    found = spread([[0, 2], [5, 7], [1, 5]])
    pooled = 2 / (7 / 9) ** 3
    assert found.pooled == pytest.approx(pooled)
    np.testing.assert_allclose(found.own, [(s + PRIOR_UPDATES * pooled) / (1 + PRIOR_UPDATES) for s in (2, 2, 8)])


def test_variance_of_one_client_is_limited():
    gained = np.concatenate([np.tile([0.9, 1.1], (9, 3)), np.tile([-5.0, 5.0], (1, 3))])
    found = spread(gained)
    noise = found.noise(history_of(gained), found.pooled)
    np.testing.assert_allclose(noise[9, -1], MAX_VARIANCE_RATIO * found.pooled)
    np.testing.assert_allclose(noise[0, -1], found.pooled)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(5, 40), st.integers(2, 8), st.floats(0, 100))
def test_pooled_variance_stays_within_honest_variances(seed, clients, updates, far):
    random = np.random.default_rng(seed)
    gained = random.standard_normal((clients, updates))
    liars = (clients - 1) // 2
    gained[:liars] *= far
    corrected = (1 - 2 / (9 * (updates - 1))) ** -3
    squares = gained[liars:].var(axis=1, ddof=1) * corrected
    assert squares.min() - 1e-12 <= spread(gained).pooled <= squares.max() + 1e-12


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.2]), st.floats(0.02, 0.4), st.booleans())
def test_error_rates_of_strikes_and_flags_are_at_most_their_levels(seed, level, noise, told):
    """Clients with mean 0, at the bar, with noise that the server knows or must estimate."""
    # They form the lower of two groups, whose bar is at `direction`.
    rates = {"false_ban_rate": level, "false_flag_rate": level}
    random, test = np.random.default_rng(seed), SideTest(**rates, direction=1e-9, widest=99)
    clients, brink, looks = 121, 60, 12
    x = noise * random.standard_normal((clients, looks))
    x[brink:] += 1
    struck, out = np.zeros((2, clients), dtype=bool)
    for seen in range(2, looks + 1):
        sides = test.judge(history_of(x[:, :seen], noise if told else 0.0), frozenset(), 1)
        struck, out = struck | sides.struck, out | sides.out
    for found in (struck, out):
        assert not found[brink:].any()
        # Of 60 clients, binomial: exceeded in at most one of ten thousand cases if the level holds.
        assert found[:brink].sum() <= binom.ppf(1 - 1e-4, brink, level)


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
    values = drift + np.random.default_rng(1).standard_normal((2000, 15))
    looks = [is_below_bound(values[:, :n], np.ones((2000, n)), 0.05) for n in range(1, 16)]
    assert np.any(looks, axis=0).sum() <= 100


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
