"""Renyi accounting against dp-accounting at the same orders, and its laws."""

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.accounting.events import MechanismEvent
from asyncfl.privacy.accounting.renyi import (
    ORDERS,
    curve,
    epsilon_of_curves,
    epsilon_of_multiples,
    laplace_curve,
    pure_curve,
    renyi_epsilon,
)

DELTA = st.floats(1e-10, 0.2)
MULTIPLIER = st.floats(0.05, 100)


def oracle(event, count, delta, orders=ORDERS):
    accountant = dp_accounting.rdp.RdpAccountant(list(orders))
    accountant.compose(event, count)
    return accountant.get_epsilon(delta)


@settings(deadline=None, max_examples=20)
@given(MULTIPLIER, st.integers(1, 300), DELTA)
def test_renyi_epsilon_matches_dp_accounting(z, count, delta):
    gaussian = oracle(dp_accounting.GaussianDpEvent(z), count, delta)
    assert renyi_epsilon([MechanismEvent("gaussian", z, count)], delta) == pytest.approx(gaussian, rel=1e-9, abs=1e-9)
    laplace = oracle(dp_accounting.LaplaceDpEvent(z), count, delta)
    assert renyi_epsilon([MechanismEvent("laplace", z, count)], delta) == pytest.approx(laplace, rel=1e-6, abs=1e-9)


def test_sampled_releases_match_dp_accounting():
    accountant = dp_accounting.rdp.RdpAccountant()
    accountant.compose(dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(1.5)), 200)
    accountant.compose(dp_accounting.GaussianDpEvent(20.0), 3)
    found = renyi_epsilon([MechanismEvent("gaussian", 1.5, 200, 0.05), MechanismEvent("gaussian", 20.0, 3)], 1e-6)
    assert found == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-9)
    assert renyi_epsilon([MechanismEvent("gaussian", 1.5, 200, 0.05)], 1e-6, "replace") is None
    with pytest.raises(ValueError, match="coarse orders only"):
        curve(MechanismEvent("gaussian", 1.5, 200, 0.05))


@settings(deadline=None, max_examples=20)
@given(st.floats(0.01, 20), st.integers(1, 100), DELTA)
def test_randomised_response_bounds_every_pure_release(epsilon, count, delta):
    assert (pure_curve(epsilon) >= laplace_curve(1 / epsilon) - 1e-12).all()
    assert (pure_curve(epsilon) <= epsilon + 1e-12).all()
    pure = renyi_epsilon([MechanismEvent("pure", epsilon, count)], delta)
    assert pure >= renyi_epsilon([MechanismEvent("laplace", 1 / epsilon, count)], delta) - 1e-12


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=30), DELTA, st.sampled_from([0.2, 1.0, 30.0]))
def test_multiples_of_a_curve_match_single_conversions(times, delta, multiplier):
    for unit in (ORDERS / 2, laplace_curve(multiplier)):
        each = epsilon_of_curves(np.outer(times, unit), delta)
        assert epsilon_of_multiples(times, unit, delta) == pytest.approx(each, rel=1e-12, abs=1e-12)
