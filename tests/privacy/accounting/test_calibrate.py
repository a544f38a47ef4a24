"""Noise for a budget: published values, and that calibration inverts accounting."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.accounting import MechanismEvent, epsilon_by, multiplier_for
from asyncfl.privacy.accounting.calibrate import advanced_share, laplace_multiplier, noise_multiplier
from asyncfl.privacy.accounting.gaussian import analytic_multiplier, exact_epsilon

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


RULES = ["naive", "naive_delta_split", "advanced", "analytic", "rdp"]


def test_advanced_composition_needs_less_noise_for_many_releases():
    advanced = noise_multiplier(1000, 1, 0.01, composition="advanced")
    assert advanced < noise_multiplier(1000, 1, 0.01, composition="naive_delta_split") / 2
    assert exact_epsilon(1000 / advanced**2, 0.01) < 1
    assert noise_multiplier(1, 60, 0.01, composition="advanced") > noise_multiplier(1, 60, 0.01)


@pytest.mark.parametrize("rule", RULES)
def test_no_noise_without_releases_or_for_infinite_epsilon(rule):
    assert noise_multiplier(0, 6, 0.01, composition=rule) == 0
    assert noise_multiplier(5, math.inf, 0.01, composition=rule) == 0


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(RULES[:4]), st.integers(1, 100), st.floats(0.1, 100), st.floats(1.01, 3))
def test_less_budget_or_more_releases_need_more_noise(rule, releases, epsilon, factor):
    z = noise_multiplier(releases, epsilon, 0.01, composition=rule)
    assert noise_multiplier(releases, epsilon * factor, 0.01, composition=rule) < z
    assert noise_multiplier(releases + 1, epsilon, 0.01, composition=rule) > z


@pytest.mark.parametrize(("epsilon", "slack", "releases"), [(0.1, 0.5, 1), (0.4, 0.3, 1), (3.0, 1e-5, 40)])
def test_advanced_share_solves_its_equation(epsilon, slack, releases):
    share = advanced_share(epsilon, slack, releases)
    cost = math.sqrt(-2 * releases * math.log(slack)) * share + releases * share * math.expm1(share)
    assert cost == pytest.approx(epsilon, rel=1e-13)
    assert share < epsilon


def test_laplace_multiplier_inverts_advanced_composition():
    # 100 Laplace releases of scale 10 are worth 5.850 by advanced composition at delta 1e-5.
    assert laplace_multiplier(5.8502, 1e-5, 100, "advanced") == pytest.approx(10, rel=1e-4)


@given(st.floats(0.1, 20), st.integers(1, 60), st.sampled_from(["naive_delta_split", "advanced", "analytic", "rdp"]))
def test_all_rules_stay_within_the_budget_and_the_analytic_one_needs_least_noise(epsilon, releases, composition):
    z = noise_multiplier(releases, epsilon, 1e-5, composition=composition, calibration="analytic")
    assert exact_epsilon(releases / z**2, 1e-5) <= epsilon * (1 + 1e-6)
    assert z >= math.sqrt(releases) * analytic_multiplier(epsilon, 1e-5) * (1 - 1e-9)
