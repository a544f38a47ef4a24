"""Golden numbers: `jax_privacy/auditing.py` of google-deepmind/jax_privacy at commit 8967688 (August 2026), imported
alone as a module, `_epsilon_one_run(0, m, r, v, .05, delta)`; `tests/test_live_oracles.py` compares live."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.estimators.one_run import (
    best_lower_bound,
    best_mu_lower_bound,
    epsilon_at,
    epsilon_lower_bound,
    guess_plans,
    largest_detectable_epsilon,
    mu_lower_bound,
    p_value,
)

JAX_PRIVACY = [
    (1000, 1000, 600, 0.0, 0.2974679266765937),
    (1000, 1000, 600, 1e-5, 0.2972269575896597),
    (1000, 1000, 600, 1e-3, 0.2659911799179627),
    (1000, 1000, 950, 1e-5, 2.7008155496582082),
    (1000, 1000, 950, 1e-3, 2.49483136997667),
    (1000, 100, 95, 0.0, 2.172434019998109),
    (1000, 100, 95, 1e-3, 0.5943136918269514),
    (200, 50, 50, 1e-5, 2.779048165354423),
    (200, 50, 50, 1e-3, 2.0972112472958573),
    (1000, 1000, 1000, 0.0, 5.8090683371730325),
    (1000, 1000, 1000, 1e-3, 3.488994797394951),
    (100, 100, 53, 0.0, 0.0),
]


@pytest.mark.parametrize(("canaries", "guesses", "right", "delta", "epsilon"), JAX_PRIVACY)
def test_the_bound_matches_jax_privacy(canaries: int, guesses: int, right: int, delta: float, epsilon: float) -> None:
    assert epsilon_lower_bound(canaries, guesses, right, delta) == pytest.approx(epsilon, abs=2e-6)


def test_all_guesses_right_have_a_closed_form() -> None:
    # (e^eps / (1 + e^eps))^r = level
    success = 0.05 ** (1 / 64)
    assert epsilon_lower_bound(64, 64, 64, 0.0) == pytest.approx(math.log(success / (1 - success)), rel=1e-12)


def test_p_value_of_three_coins_by_hand() -> None:
    # epsilon 0: three fair coins, at least two right: 4/8; below that by one step: 3/8, by two: (3/8 + 1/8) / 2.
    assert p_value(3, 3, 2, 0.0, 0.0) == pytest.approx(0.5)
    assert p_value(3, 3, 2, 0.0, 0.01) == pytest.approx(0.5 + 2 * 3 * 0.01 * 3 / 8)
    assert p_value(3, 3, 0, 0.0, 0.01) == 1.0


@given(st.integers(1, 300), st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.0, 1e-6, 1e-4, 0.01]))
def test_the_bound_grows_with_right_guesses_and_falls_with_delta(
    guesses: int, share: float, more: float, delta: float
) -> None:
    few = int(share * guesses)
    many = few + int(more * (guesses - few))
    assert (
        epsilon_lower_bound(guesses, guesses, few, delta) <= epsilon_lower_bound(guesses, guesses, many, delta) + 1e-9
    )
    assert epsilon_lower_bound(guesses, guesses, many, delta) <= epsilon_lower_bound(guesses, guesses, many, 0.0)


@given(st.integers(1, 3000))
def test_plans_depend_only_on_the_number_of_canaries(canaries: int) -> None:
    found = guess_plans(canaries)
    assert len(set(found)) == len(found)
    assert all(min(canaries, 16) <= sum(plan) <= canaries for plan in found)
    assert len(found) <= 3
    assert guess_plans(1000) == ((250, 250), (125, 125), (250, 0))


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one canary, got 0"):
        guess_plans(0)
    with pytest.raises(ValueError, match="right <= guesses <= canaries"):
        epsilon_lower_bound(10, 20, 5, 0.0)


def test_a_perfect_attack_stays_below_the_largest_detectable_epsilon() -> None:
    coins = np.random.default_rng(0).random(1000) < 0.5
    shown = best_lower_bound(np.where(coins, 1.0, 0.0), coins, 1e-5)
    assert (shown.guesses, shown.right) == (500, 500)
    assert shown.epsilon <= largest_detectable_epsilon(1000, 1e-5)
    assert largest_detectable_epsilon(1000, 1e-5) == pytest.approx(epsilon_lower_bound(1000, 500, 500, 1e-5, 0.05 / 3))


@pytest.mark.parametrize(("mu", "shown"), [(0.5, 0.0), (2.0, 0.8)])
def test_the_bound_holds_at_95_percent_for_a_gaussian_mechanism(mu: float, shown: float) -> None:
    random, delta = np.random.default_rng(3), 1e-5
    truth = exact_epsilon(mu * mu, delta)
    found = []
    for _ in range(100):
        coins = random.random(200) < 0.5
        found.append(best_lower_bound(mu * coins + random.standard_normal(200), coins, delta).epsilon)
    assert np.sum(np.array(found) > truth) <= 11
    assert np.median(found) >= shown


def test_unused_data_show_something_in_at_most_5_percent_of_runs() -> None:
    random = np.random.default_rng(4)
    found = [best_lower_bound(random.standard_normal(200), random.random(200) < 0.5, 0.0).epsilon for _ in range(400)]
    assert np.sum(np.array(found) > 0) <= 30


JAX_PRIVACY_GAUSSIAN = [
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


@pytest.mark.parametrize(("canaries", "guesses", "right", "delta", "epsilon"), JAX_PRIVACY_GAUSSIAN)
def test_mu_matches_jax_privacy(canaries: int, guesses: int, right: int, delta: float, epsilon: float) -> None:
    assert epsilon_at(mu_lower_bound(canaries, guesses, right), delta) == pytest.approx(epsilon, abs=1e-4)


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_the_bound_on_mu_holds_at_95_percent(mu: float) -> None:
    random, found = np.random.default_rng(3), []
    for _ in range(60):
        coins = random.random(200) < 0.5
        found.append(best_mu_lower_bound(mu * coins + random.standard_normal(200), coins))
    assert np.sum(np.array(found) > mu) <= 8  # of 60, but for one chance in a hundred
    assert np.median(found) > 0.5 * mu - 0.25
