"""Variance of clients' gains: values by hand, influence of a minority, and error rates of bans."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from asyncfl.defences.evidence.gains import MAX_VARIANCE_RATIO, PRIOR_UPDATES, GainHistory, estimate_variances
from asyncfl.defences.evidence.side_test import SideTest


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
