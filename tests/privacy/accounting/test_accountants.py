"""All accountants together: published values, oracles, and inequalities among them."""

import math

import dp_accounting
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.accounting import MechanismEvent, epsilons_of, smallest_epsilon
from asyncfl.privacy.accounting.accountants import notes
from asyncfl.privacy.accounting.basic import amplified, basic_and_advanced, epsilon_of_one
from asyncfl.privacy.accounting.gaussian import exact_epsilon


def test_one_hundred_laplace_releases_equal_the_published_values():
    found = epsilons_of([MechanismEvent("laplace", 10, 100)], 1e-5)
    assert (found.basic, found.advanced) == (pytest.approx(10), pytest.approx(5.850, abs=5e-4))
    assert (found.rdp, found.exact) == (pytest.approx(4.53269, abs=6e-6), pytest.approx(4.22035, abs=6e-6))


def test_sampled_gaussian_releases_equal_the_published_values():
    found = epsilons_of([MechanismEvent("gaussian", 1.1, 1000, 0.01)], 1e-5)
    assert (found.rdp, found.exact) == (pytest.approx(1.71177, abs=6e-6), pytest.approx(1.51537, abs=6e-6))
    assert found.basic > found.rdp


def test_mixed_releases_match_dp_accounting():
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.LaplaceDpEvent(10), 20)
    accountant.compose(dp_accounting.GaussianDpEvent(5), 4)
    found = smallest_epsilon([MechanismEvent("gaussian", 5, 4), MechanismEvent("laplace", 10, 20)], 1e-5)
    assert found == pytest.approx(accountant.get_epsilon(1e-5), abs=1e-4)


def test_basic_and_advanced_composition_share_delta():
    basic, advanced = basic_and_advanced([MechanismEvent("gaussian", 2, 4), MechanismEvent("laplace", 10, 3)], 1e-5)
    own = exact_epsilon(0.25, 1e-5 / 4)
    assert basic == pytest.approx(4 * own + 0.3)
    halved = exact_epsilon(0.25, 1e-5 / 8)
    squares, grown = 4 * halved**2 + 0.03, 4 * halved * math.expm1(halved) + 0.3 * math.expm1(0.1)
    assert advanced == pytest.approx(math.sqrt(2 * math.log(2e5) * squares) + grown)


def test_sampling_amplifies_privacy():
    assert amplified(1.0, 0.1) == pytest.approx(math.log1p(0.1 * math.expm1(1)))
    assert amplified(2000.0, 0.1) == pytest.approx(2000 + math.log(0.1))
    once = MechanismEvent("gaussian", 1.0, 1, 0.1)
    # One sampled release is exactly what amplification says of it.
    assert smallest_epsilon([once], 1e-5) == pytest.approx(epsilon_of_one(once, 1e-5), abs=1e-4)
    assert epsilon_of_one(once, 0.2) == 0
    assert notes(True, "replace")[1].startswith("Renyi accounting has no bound")
    assert notes(False, "replace") == []


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.builds(MechanismEvent, st.just("gaussian"), st.floats(0.5, 50), st.integers(1, 20)), min_size=1, max_size=4
    ),
    st.floats(1e-8, 0.05),
    st.sampled_from(["add_remove", "replace"]),
)
def test_exact_epsilon_is_the_smallest_and_replacement_costs_more(events, delta, neighbours):
    found = epsilons_of(events, delta, neighbours)
    assert found.exact <= min(found.basic, found.advanced, found.rdp) * (1 + 1e-9) + 1e-12
    assert epsilons_of(events, delta, "replace").exact >= found.exact


def test_epsilon_is_zero_without_releases_and_infinite_without_noise():
    for events, epsilon in (
        ([], 0.0),
        ([MechanismEvent("gaussian", 0.0)], math.inf),
        ([MechanismEvent("laplace", 0.0, 3)], math.inf),
    ):
        found = epsilons_of(events, 1e-5)
        assert (found.basic, found.advanced, found.rdp, found.exact) == (epsilon,) * 4
