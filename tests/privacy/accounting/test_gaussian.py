"""Noise and epsilon of the Gaussian mechanism, against published numbers and against dp-accounting."""

import math

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.accounting import gaussian
from asyncfl.privacy.accounting.composition import noise_multiplier
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
def test_classical_constant(delta, factor, expected):
    assert factor * classical_constant(delta) == pytest.approx(expected, abs=5e-8)


def test_equal_releases_add_up_and_squares_past_the_floats_are_infinite_or_0():
    assert squared_mu_of(2.0, 3) == pytest.approx(0.75)
    assert squared_mu_of(1e-200) == math.inf
    assert squared_mu_of(1e200, 10**9) == 0
    assert squared_mu_of(0.0) == math.inf
    assert squared_mu_of(0.0, 0) == squared_mu_of(math.inf, 5) == 0


@pytest.mark.parametrize(("delta", "constant", "limit"), [(0.01, 1, 6.772), (1e-5, 1, 8.420), (0.01, 1.25, 13.775)])
def test_classical_calibration_holds_up_to_a_limit(delta, constant, limit):
    found = classical_limit(delta, constant)
    assert found == pytest.approx(limit, abs=5e-4)
    factor = constant * classical_constant(delta)
    below, above = 0.99 * found, 1.01 * found
    assert exact_epsilon((below / factor) ** 2, delta) < below
    assert exact_epsilon((above / factor) ** 2, delta) > above


@pytest.mark.parametrize(("epsilon", "delta", "z"), [(1, 1e-5, 3.730632), (6, 0.01, 0.499875), (60, 0.01, 0.111716)])
def test_analytic_multiplier(epsilon, delta, z):
    assert analytic_multiplier(epsilon, delta) == pytest.approx(z, abs=5e-7)


def test_classical_multiplier_of_one_release():
    assert noise_multiplier(1, 1, 1e-5) == pytest.approx(4.844805, abs=5e-7)


@pytest.mark.parametrize(
    ("sensitivity", "epsilons"),
    [(1, [3.92125, 15.7827, 79.2755]), (2, [8.89523, 40.3044, 241.935])],
    ids=["add or remove a client", "replace a client"],
)
def test_exact_epsilon_over_rounds(sensitivity, epsilons):
    found = exact_epsilon(np.array([1, 10, 100]) * (sensitivity / 1.1) ** 2, 1e-5)
    assert found == pytest.approx(epsilons, rel=5e-6)


def test_exact_and_renyi_epsilon_of_different_releases():
    together = sum(squared_mu_of(z) for z in (5, 6, 7, 8))
    assert exact_epsilon(together, 1e-5) == pytest.approx(1.224343, abs=5e-7)
    assert rdp_epsilon(together, 1e-5) == pytest.approx(1.335174, abs=5e-7)
    assert exact_epsilon(1.0, 1e-5) == pytest.approx(4.377178, abs=5e-7)
    assert rdp_epsilon(1.0, 1e-5) == pytest.approx(4.728507, abs=5e-7)


def test_no_release_costs_nothing_and_no_noise_costs_everything():
    assert exact_epsilon([0.0, math.inf], 0.01).tolist() == [0, math.inf]
    assert (rdp_epsilon(0.0, 0.01), rdp_epsilon(math.inf, 0.01)) == (0, math.inf)
    assert analytic_multiplier(math.inf, 0.01) == rdp_multiplier(math.inf, 0.01) == 0


def test_epsilon_is_zero_where_delta_alone_is_enough():
    assert exact_epsilon(1e-6, 0.01) == 0
    assert dp_accounting.get_epsilon_gaussian(1e3, 0.01) == 0


def test_exact_epsilon_keeps_the_shape():
    found = exact_epsilon(np.ones((2, 3)), 0.01)
    assert found.shape == (2, 3)
    assert len(set(found.ravel())) == 1
    assert isinstance(exact_epsilon(1.0, 0.01), float)


@settings(deadline=None, max_examples=60)
@given(SQUARED_MU, DELTA)
def test_exact_epsilon_is_that_of_dp_accounting(mu2, delta):
    oracle = dp_accounting.get_epsilon_gaussian(1 / math.sqrt(mu2), delta)
    assert exact_epsilon(mu2, delta) == pytest.approx(oracle, rel=1e-8, abs=1e-8)


@settings(deadline=None, max_examples=60)
@given(EPSILON, DELTA)
def test_analytic_multiplier_is_that_of_dp_accounting(epsilon, delta):
    oracle = dp_accounting.get_sigma_gaussian(epsilon, delta)
    assert analytic_multiplier(epsilon, delta) == pytest.approx(oracle, rel=1e-8)


@pytest.mark.parametrize("z", [0.8, 2.0, 7.0])
def test_exact_epsilon_is_that_of_privacy_loss_distributions(z):
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(z), 3)
    assert exact_epsilon(3 / z**2, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), abs=1e-3)


@settings(deadline=None, max_examples=60)
@given(EPSILON, DELTA)
def test_calibrating_and_accounting_undo_each_other(epsilon, delta):
    assert exact_epsilon(analytic_multiplier(epsilon, delta) ** -2, delta) == pytest.approx(epsilon, rel=1e-9)


@settings(deadline=None, max_examples=10)
@given(st.floats(0.1, 100), st.floats(1e-8, 0.1))
def test_renyi_accounting_is_an_upper_bound(epsilon, delta):
    z = rdp_multiplier(epsilon, delta)
    assert z >= analytic_multiplier(epsilon, delta)
    assert rdp_epsilon(z**-2, delta) <= epsilon
    assert rdp_epsilon((z * (1 - 1e-6)) ** -2, delta) > epsilon


@settings(deadline=None)
@given(st.lists(SQUARED_MU, min_size=2, max_size=20), DELTA)
def test_epsilon_grows_with_what_is_released(entries, delta):
    found = exact_epsilon(np.sort(entries), delta)
    assert (np.diff(found) >= 0).all()
    assert exact_epsilon(sum(entries), delta) >= found[-1]


@pytest.mark.parametrize("squared_mu", [0.01, 1.0, 30.0, 1e4, 1e8])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.3])
def test_an_epsilon_takes_few_steps(squared_mu, delta, monkeypatch):
    """Newton's: halving the bracket takes more than forty."""
    asked = []
    log_delta = gaussian.log_delta
    monkeypatch.setattr(gaussian, "log_delta", lambda mu, epsilon: asked.append(mu) or log_delta(mu, epsilon))
    exact_epsilon(squared_mu, delta)
    assert len(asked) <= 9
