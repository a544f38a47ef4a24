"""Exact epsilon of pure and of sampled releases, against sums and bounds written down here."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from asyncfl.privacy.accounting import MechanismEvent, Neighbours, epsilon_by, smallest_epsilon
from asyncfl.privacy.accounting.exact import is_revealing, revealed_epsilon
from asyncfl.privacy.accounting.gaussian import exact_epsilon


def by_the_sum(epsilon: float, count: int, delta: float) -> float:
    """Where sum p (1 - e^(x - loss)) over larger losses is delta; losses are epsilon or -epsilon each."""
    up = np.arange(count + 1)
    losses = (2 * up - count) * epsilon
    probability = binom.pmf(up, count, 1 / (1 + math.exp(-epsilon)))

    def excess(x: float) -> float:
        return float(np.sum(probability * -np.expm1(np.minimum(x - losses, 0)))) - delta

    return float(brentq(excess, 0, count * epsilon, xtol=1e-13, rtol=1e-14))


@pytest.mark.parametrize(("epsilon", "count", "delta"), [(0.4, 30, 0.01), (1.5, 7, 1e-3), (0.05, 400, 1e-6)])
def test_pure_releases_match_the_binomial_sum(epsilon: float, count: int, delta: float) -> None:
    found = smallest_epsilon([MechanismEvent("pure", epsilon, count)], delta)
    assert found == pytest.approx(by_the_sum(epsilon, count, delta), rel=1e-11)


def test_the_grid_contains_the_loss_of_a_pure_release() -> None:
    """An epsilon between two points of the grid would be rounded up, once for each of thirty releases."""
    alone = by_the_sum(0.40003, 30, 0.01)
    mixed = smallest_epsilon([MechanismEvent("pure", 0.40003, 30), MechanismEvent("laplace", 1e6)], 0.01)
    assert alone <= mixed * (1 + 1e-9)
    assert mixed == pytest.approx(alone, abs=3e-4)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("multiplier", [1e-9, 1e-5, 2e-4])
@pytest.mark.parametrize("rate", [1e-300, 1e-5, 0.5])
@pytest.mark.parametrize("count", [1, 1000, 10**9])
def test_sampled_releases_with_almost_no_noise_have_a_finite_epsilon(
    neighbours: Neighbours, multiplier: float, rate: float, count: int
) -> None:
    parts = [MechanismEvent("gaussian", multiplier, count, rate)]
    found = smallest_epsilon(parts, 1e-5, neighbours)
    assert 0 <= found <= epsilon_by("basic", parts, 1e-5, neighbours) * (1 + 1e-5)
    assert (found == 0) == (count * rate <= 1e-5)


def test_one_sampled_release_is_amplified_exactly() -> None:
    # delta(e) = q delta_1(ln(1 + (e^e - 1)/q)): at z = 1e-3, q = 1e-3, delta = 1e-6 that is ln(1e-3) less than
    # epsilon of the plain release at delta 1e-3, 1e6/2 + 3.09e3.
    expected = exact_epsilon(1e6, 1e-3) + math.log(1e-3)
    assert revealed_epsilon(MechanismEvent("gaussian", 1e-3, 1, 1e-3), 1e-6, "add_remove") == pytest.approx(
        expected, rel=1e-12
    )


def test_revealed_epsilon_of_two_releases_by_hand() -> None:
    # Two releases, drawn with 1/2 each: that both hold the record has probability 1/4 = delta. So k = 1 leaves no delta
    # and says nothing; k = 2 leaves all of it, for the 3/4 in which the record is drawn at all.
    found = revealed_epsilon(MechanismEvent("gaussian", 1e-3, 2, 0.5), 0.25, "add_remove")
    assert found == pytest.approx(float(exact_epsilon(2e6, 1 / 3)), rel=1e-12)


@pytest.mark.parametrize(("multiplier", "rate", "count"), [(0.05, 0.01, 1), (0.01, 0.01, 40), (0.02, 0.3, 10)])
def test_revealed_epsilon_is_a_close_upper_bound(multiplier: float, rate: float, count: int) -> None:
    part = MechanismEvent("gaussian", multiplier, count, rate)
    exact = smallest_epsilon([part], 1e-5)
    assert not is_revealing(part, 0.1)
    assert exact * (1 - 1e-4) <= revealed_epsilon(part, 1e-5, "add_remove") <= exact * 1.08


def test_large_laplace_epsilons_add_up_with_other_releases() -> None:
    open_, plain = MechanismEvent("laplace", 1e-9, 3), MechanismEvent("gaussian", 2.0, 4)
    assert 3e9 < smallest_epsilon([open_, plain], 1e-5) <= 3e9 + smallest_epsilon([plain], 1e-5)


def test_exact_epsilon_is_at_most_the_renyi_epsilon() -> None:
    many = [MechanismEvent("gaussian", 20.0, 10**6, 1e-4)]
    renyi = epsilon_by("rdp", many, 1e-12)
    # A grid of losses alone says .115.
    assert smallest_epsilon(many, 1e-12) == renyi == pytest.approx(0.032, abs=5e-4)


def test_epsilon_is_zero_if_delta_covers_being_sampled() -> None:
    # Of two releases with 1/10 each one holds the record with probability .19.
    event = MechanismEvent("gaussian", 0.01, 2, 0.1)
    assert revealed_epsilon(event, 0.1901, "add_remove") == 0
    assert revealed_epsilon(event, 0.1899, "add_remove") > 0
