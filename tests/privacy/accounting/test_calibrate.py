"""Noise for a budget and the epsilon of noise: published values, dp-accounting, and that each inverts the other."""

from __future__ import annotations

import math

import dp_accounting
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.accounting import MechanismEvent, epsilon_by, multiplier_for
from asyncfl.privacy.accounting.calibrate import advanced_share, noise_multiplier
from asyncfl.privacy.accounting.gaussian import (
    analytic_multiplier,
    classical_constant,
    classical_limit,
    exact_epsilon,
    smallest_sufficient,
    squared_mu_of,
)

SQUARED_MU = st.floats(1e-4, 1e4)
DELTA = st.floats(1e-10, 0.4)
EPSILON = st.floats(0.05, 200)


@pytest.mark.parametrize(
    ("delta", "factor", "expected"),
    [(0.01, 1, 3.1075115), (1e-5, 1, 4.8448053), (0.01, 1.25, 3.8843893), (0.01, 1.5, 4.6612672)],
)
def test_classical_constant_equals_the_published_values(delta, factor, expected):
    assert factor * classical_constant(delta) == pytest.approx(expected, abs=5e-8)


@pytest.mark.parametrize(("delta", "constant", "limit"), [(0.01, 1, 6.772), (1e-5, 1, 8.420), (0.01, 1.25, 13.775)])
def test_classical_calibration_holds_up_to_its_limit(delta, constant, limit):
    found = classical_limit(delta, constant)
    assert found == pytest.approx(limit, abs=5e-4)
    factor = constant * classical_constant(delta)
    below, above = 0.99 * found, 1.01 * found
    assert exact_epsilon((below / factor) ** 2, delta) < below
    assert exact_epsilon((above / factor) ** 2, delta) > above


@pytest.mark.parametrize(("epsilon", "delta", "z"), [(1, 1e-5, 3.730632), (6, 0.01, 0.499875), (60, 0.01, 0.111716)])
def test_analytic_multiplier_equals_the_published_values(epsilon, delta, z):
    assert analytic_multiplier(epsilon, delta) == pytest.approx(z, abs=5e-7)


def test_exact_and_renyi_epsilon_equal_the_published_values():
    z, together = [MechanismEvent("gaussian", z) for z in (5, 6, 7, 8)], sum(squared_mu_of(z) for z in (5, 6, 7, 8))
    assert exact_epsilon(together, 1e-5) == pytest.approx(1.224343, abs=5e-7)
    assert epsilon_by("rdp", z, 1e-5) == pytest.approx(1.335174, abs=5e-7)
    assert exact_epsilon(1.0, 1e-5) == pytest.approx(4.377178, abs=5e-7)
    assert epsilon_by("rdp", [MechanismEvent("gaussian", 1.0)], 1e-5) == pytest.approx(4.728507, abs=5e-7)


@settings(deadline=None, max_examples=60)
@given(SQUARED_MU, DELTA)
def test_exact_epsilon_matches_dp_accounting(mu2, delta):
    oracle = dp_accounting.get_epsilon_gaussian(1 / math.sqrt(mu2), delta)
    assert exact_epsilon(mu2, delta) == pytest.approx(oracle, rel=1e-8, abs=1e-8)


@settings(deadline=None, max_examples=60)
@given(EPSILON, DELTA)
def test_analytic_multiplier_matches_dp_accounting(epsilon, delta):
    oracle = dp_accounting.get_sigma_gaussian(epsilon, delta)
    assert analytic_multiplier(epsilon, delta) == pytest.approx(oracle, rel=1e-8)


@given(st.floats(1e-50, 1e50), st.floats(1e-50, 1e50), st.sampled_from([0.3, 1.0, 7.0]))
def test_the_root_is_found_from_any_start(needed: float, start: float, power: float) -> None:
    found = smallest_sufficient(lambda x: (needed / x) ** power - 1 if x > needed / 1e9 else 1e9, start)
    assert (needed / found) ** power <= 1
    assert found == pytest.approx(needed, rel=4e-15)


def test_a_jump_is_found_on_its_upper_side() -> None:
    assert smallest_sufficient(lambda x: 1.0 if x < 3 else -1.0) == pytest.approx(3, rel=1e-15)
    assert smallest_sufficient(lambda x: 1.0 if x < 3 else -1.0) >= 3
    assert smallest_sufficient(lambda x: 1.0 if x < 3 else 0.0, 3.0) == 3
    coarse = smallest_sufficient(lambda x: math.log(3 / x), precision=1e-3)
    assert 3 <= coarse <= 3 * (1 + 3e-3)


SAMPLED = {"epsilon": 2.0, "delta": 1e-5, "releases": 100, "rate": 0.1}


def test_multipliers_of_sampled_releases_equal_the_published_values():
    assert multiplier_for(**SAMPLED, accountant="rdp") == pytest.approx(2.42241, abs=1e-5)
    assert multiplier_for(**SAMPLED, accountant="rdp", neighbours="replace") is None
    assert multiplier_for(**SAMPLED, accountant="exact") == pytest.approx(2.24780, abs=1e-4)
    many = multiplier_for(1.0, 1e-5, releases=100_000, rate=0.001, neighbours="replace")
    assert many == pytest.approx(2.368, abs=2e-3), "by dp-accounting on a grid of 1e-4"
    assert multiplier_for(1.0, 1e-5, releases=9, neighbours="replace") == pytest.approx(6 * 3.730632, abs=5e-6)


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
    assert analytic_multiplier(math.inf, 0.01) == multiplier_for(math.inf, 0.01, accountant="rdp") == 0


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
    assert noise_multiplier(100, 5.8502, 1e-5, composition="advanced", mechanism="laplace") == pytest.approx(
        10, rel=1e-4
    )


@given(st.floats(0.1, 20), st.integers(1, 60), st.sampled_from(["naive_delta_split", "advanced", "analytic", "rdp"]))
def test_all_rules_stay_within_the_budget_and_the_analytic_one_needs_least_noise(epsilon, releases, composition):
    z = noise_multiplier(releases, epsilon, 1e-5, composition=composition, calibration="analytic")
    assert exact_epsilon(releases / z**2, 1e-5) <= epsilon * (1 + 1e-6)
    assert z >= math.sqrt(releases) * analytic_multiplier(epsilon, 1e-5) * (1 - 1e-9)
