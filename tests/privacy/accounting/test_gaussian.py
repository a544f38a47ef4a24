"""Noise and epsilon of the Gaussian mechanism, against published values and dp-accounting."""

import math

import dp_accounting
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.accounting.gaussian import (
    analytic_multiplier,
    classical_constant,
    classical_limit,
    exact_epsilon,
    squared_mu_of,
)
from asyncfl.privacy.accounting.renyi import rdp_epsilon, rdp_multiplier

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
    together = sum(squared_mu_of(z) for z in (5, 6, 7, 8))
    assert exact_epsilon(together, 1e-5) == pytest.approx(1.224343, abs=5e-7)
    assert rdp_epsilon(together, 1e-5) == pytest.approx(1.335174, abs=5e-7)
    assert exact_epsilon(1.0, 1e-5) == pytest.approx(4.377178, abs=5e-7)
    assert rdp_epsilon(1.0, 1e-5) == pytest.approx(4.728507, abs=5e-7)


def test_epsilon_is_zero_without_releases_and_infinite_without_noise():
    assert exact_epsilon([0.0, math.inf], 0.01).tolist() == [0, math.inf]
    assert (rdp_epsilon(0.0, 0.01), rdp_epsilon(math.inf, 0.01)) == (0, math.inf)
    assert analytic_multiplier(math.inf, 0.01) == rdp_multiplier(math.inf, 0.01) == 0


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


@settings(deadline=None, max_examples=10)
@given(st.floats(0.1, 100), st.floats(1e-8, 0.1))
def test_renyi_accounting_is_an_upper_bound(epsilon, delta):
    z = rdp_multiplier(epsilon, delta)
    assert z >= analytic_multiplier(epsilon, delta)
    assert rdp_epsilon(z**-2, delta) <= epsilon
    assert rdp_epsilon((z * (1 - 1e-6)) ** -2, delta) > epsilon
