"""Noise for a budget: published numbers, and that it undoes the accounting."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.accounting import MechanismEvent, calibrate, epsilon_by, multiplier_for

SAMPLED = {"epsilon": 2.0, "delta": 1e-5, "releases": 100, "rate": 0.1}


def test_on_a_poisson_sample():
    assert multiplier_for(**SAMPLED, accountant="rdp") == pytest.approx(2.42241, abs=1e-5)
    assert multiplier_for(**SAMPLED, accountant="exact") == pytest.approx(2.24780, abs=1e-4)
    assert multiplier_for(**SAMPLED, accountant="rdp", neighbours="replace") is None


def test_of_a_single_release_and_of_a_replaced_record():
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
def test_it_spends_the_budget_and_no_more(epsilon, mechanism, releases, accountant):
    found = multiplier_for(epsilon, 1e-5, mechanism, releases, accountant=accountant)
    spent = epsilon_by(accountant, [MechanismEvent(mechanism, found, releases)], 1e-5)
    assert spent <= epsilon * (1 + 1e-9)
    assert spent == pytest.approx(epsilon, rel=1e-4)


def test_a_replaced_record_in_a_sample_needs_more():
    found = multiplier_for(**SAMPLED, neighbours="replace")
    assert 2.25 < found < 2 * 2.25
    assert epsilon_by("exact", [MechanismEvent("gaussian", found, 100, 0.1)], 1e-5, "replace") <= 2


def test_few_questions_lead_to_the_noise_of_a_sampled_release(monkeypatch):
    # As if epsilon were 3/z, and another accountant said 5 times as much.
    asked = []

    def epsilon_of(events, delta, neighbours):
        asked.append(events[0])
        return 3 / events[0].parameter

    monkeypatch.setattr(calibrate, "smallest_epsilon", epsilon_of)
    monkeypatch.setattr(calibrate, "multiplier_for", lambda epsilon, *of: 15 / epsilon)
    for epsilon in (0.1, 0.7, 1.0, 2.0, 31.0):
        asked.clear()
        found = calibrate._by_distributions(epsilon, 1e-5, 40, 0.2, "replace")
        assert 3 / epsilon <= found <= 3 / epsilon * (1 + 3.1e-6)
        # The other's noise; what would be enough, and 1 % less than that; and Brent's method between the last two.
        logs = np.log([event.parameter for event in asked]) - math.log(3 / epsilon)
        assert logs[:2] == pytest.approx([math.log(5) + 1e-6, -0.01])
        assert len(asked) <= 9
        assert {(event.mechanism, event.count, event.rate) for event in asked} == {("gaussian", 40, 0.2)}


def test_what_delta_alone_covers_needs_next_to_no_noise():
    # At delta 0.9 no noise at all hides enough of a record that is drawn with probability 1/2.
    found = multiplier_for(1.0, 0.9, "gaussian", 1, 0.5, "add_remove", "basic")
    assert 0 < found < 1e-12


def test_an_accountant_that_knows_no_bound_for_so_little_noise_is_asked_for_more(monkeypatch):
    monkeypatch.setattr(
        calibrate, "epsilon_by", lambda how, events, *of: None if (z := events[0].parameter) < 0.4 else 1 / z
    )
    calibrate.multiplier_for.cache_clear()
    assert multiplier_for(5.0, 1e-5, "laplace", accountant="rdp") == pytest.approx(0.4, rel=1e-9)
    assert multiplier_for(0.5, 1e-5, "laplace", accountant="rdp") == pytest.approx(2.0, rel=1e-9)
    calibrate.multiplier_for.cache_clear()
