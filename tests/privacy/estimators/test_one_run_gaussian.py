"""Golden numbers: `jax_privacy/auditing.py` at commit 8967688, `_epsilon_one_run_fdp(0, m, r, v, .05, delta)`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.privacy.estimators.one_run_gaussian import (
    best_mu_lower_bound,
    epsilon_at,
    largest_detectable_mu,
    mu_lower_bound,
    refuted,
)

JAX_PRIVACY = [
    (1000, 1000, 600, 1e-5, 0.5835403679239116),
    (1000, 1000, 600, 1e-2, 0.19760363922989102),
    (1000, 1000, 950, 1e-5, 5.083982403288034),
    (1000, 1000, 950, 1e-2, 2.7566938482655177),
    (1000, 100, 95, 1e-5, 3.3233004900323655),
    (200, 50, 50, 1e-5, 5.120928625879961),
    (1000, 1000, 1000, 1e-5, 12.334570155595598),
    (1000, 1000, 1000, 1e-2, 7.62430154031646),
    (100, 100, 53, 1e-5, 0.0),
]


@pytest.mark.parametrize(("canaries", "guesses", "right", "delta", "epsilon"), JAX_PRIVACY)
def test_the_bound_matches_jax_privacy(canaries: int, guesses: int, right: int, delta: float, epsilon: float) -> None:
    assert epsilon_at(mu_lower_bound(canaries, guesses, right), delta) == pytest.approx(epsilon, abs=1e-4)


@given(st.integers(1, 200), st.floats(0, 1), st.floats(0, 6), st.floats(0, 6))
def test_refuting_one_mu_refutes_all_smaller_ones(guesses: int, share: float, one: float, other: float) -> None:
    low, high = sorted((one, other))
    first, second = refuted(2 * guesses, guesses, int(share * guesses), np.array([low, high]), 0.05)
    assert first or not second


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_the_bound_holds_at_95_percent_for_a_gaussian_mechanism(mu: float) -> None:
    random, found = np.random.default_rng(3), []
    for _ in range(60):
        coins = random.random(200) < 0.5
        found.append(best_mu_lower_bound(mu * coins + random.standard_normal(200), coins))
    assert np.sum(np.array(found) > mu) <= 8  # of 60, but for one chance in a hundred
    assert np.median(found) > 0.5 * mu - 0.25


def test_three_plans_show_more_than_the_best_of_seven() -> None:
    """With the error shared among all seven plans of 200, 100, 50 and 25 guesses, the mean bound is 1.10."""
    random, found = np.random.default_rng(5), []
    for _ in range(40):
        coins = random.random(200) < 0.5
        found.append(best_mu_lower_bound(3.0 * coins + random.standard_normal(200), coins))
    assert np.mean(found) > 1.17
    assert max(found) < 3


def test_a_perfect_attack_reaches_the_largest_detectable_mu() -> None:
    coins = np.arange(200) % 2 == 0
    assert best_mu_lower_bound(coins.astype(float), coins) == largest_detectable_mu(200)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="right <= guesses <= canaries"):
        mu_lower_bound(10, 5, 6)
