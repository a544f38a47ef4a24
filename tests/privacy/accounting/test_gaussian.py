"""Noise and epsilon of the Gaussian mechanism, against published values and dp-accounting."""

from __future__ import annotations

import math

import dp_accounting
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.accounting import MechanismEvent, epsilon_by, multiplier_for
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


def test_epsilon_is_zero_without_releases_and_infinite_without_noise():
    assert exact_epsilon([0.0, math.inf], 0.01).tolist() == [0, math.inf]
    assert analytic_multiplier(math.inf, 0.01) == multiplier_for(math.inf, 0.01, accountant="rdp") == 0


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
