"""Noise for a budget: published values, and that calibration inverts accounting."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.accounting import MechanismEvent, epsilon_by, multiplier_for

SAMPLED = {"epsilon": 2.0, "delta": 1e-5, "releases": 100, "rate": 0.1}


def test_multipliers_of_sampled_releases_equal_the_published_values():
    assert multiplier_for(**SAMPLED, accountant="rdp") == pytest.approx(2.42241, abs=1e-5)
    assert multiplier_for(**SAMPLED, accountant="exact") == pytest.approx(2.24780, abs=1e-4)
    assert multiplier_for(**SAMPLED, accountant="rdp", neighbours="replace") is None


def test_multipliers_of_one_release_and_of_a_replaced_record():
    assert multiplier_for(1.0, 1e-5) == pytest.approx(3.730632, abs=5e-7)
    assert multiplier_for(1.0, 1e-5, releases=9, neighbours="replace") == pytest.approx(6 * 3.730632, abs=5e-6)
    assert multiplier_for(math.inf, 1e-5) == 0


@settings(deadline=None, max_examples=12)
@given(
    st.floats(0.1, 50),
    st.sampled_from(["gaussian", "laplace"]),
    st.integers(1, 50),
    st.sampled_from(["basic", "advanced", "rdp", "exact"]),
)
def test_the_multiplier_spends_exactly_the_budget(epsilon, mechanism, releases, accountant):
    found = multiplier_for(epsilon, 1e-5, mechanism, releases, accountant=accountant)
    spent = epsilon_by(accountant, [MechanismEvent(mechanism, found, releases)], 1e-5)
    assert spent <= epsilon * (1 + 1e-9)
    assert spent == pytest.approx(epsilon, rel=1e-4)


def test_a_replaced_record_in_a_sample_needs_more_noise():
    found = multiplier_for(**SAMPLED, neighbours="replace")
    assert 2.25 < found < 2 * 2.25
    assert epsilon_by("exact", [MechanismEvent("gaussian", found, 100, 0.1)], 1e-5, "replace") <= 2


def test_almost_no_noise_is_needed_if_delta_suffices():
    # At delta 0.9 no noise at all hides enough of a record that is drawn with probability 1/2.
    found = multiplier_for(1.0, 0.9, "gaussian", 1, 0.5, "add_remove", "basic")
    assert 0 < found < 1e-12
