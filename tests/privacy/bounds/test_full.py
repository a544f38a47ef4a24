"""Convergence bound of theorem 2."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.bounds import BoundSettings, FullParticipation, LossConstants, optimum


def bound(**noise):
    return FullParticipation(LossConstants(), BoundSettings(**noise))


def test_constants_equal_the_published_values():
    found = bound()
    assert found.contraction == 0.75
    assert found.kappa1 == pytest.approx(0.52596768, abs=5e-9)
    assert found.kappa0 == pytest.approx(0.01207078, abs=5e-9)


@pytest.mark.parametrize(
    ("epsilon", "value", "best", "real"),
    [(50, 0.26753415, 14, 14.1801), (60, 0.22281512, 15, 14.8403), (100, 0.13387962, 17, 16.6764)],
)
def test_bound_and_best_rounds_equal_the_published_values(epsilon, value, best, real):
    found = optimum(bound(epsilon=epsilon), 500)
    assert float(bound(epsilon=epsilon)(25)) == pytest.approx(value, abs=5e-9)
    assert found.best == best
    assert found.real == pytest.approx(real, abs=5e-5)
    assert found.bound == bound(epsilon=epsilon)(best)
    assert found.interior


@pytest.mark.parametrize(("clients", "value"), [(60, 0.203386), (80, 0.176167), (100, 0.157628)])
def test_more_clients_lower_the_bound(clients, value):
    assert float(bound(clients=clients)(25)) == pytest.approx(value, abs=5e-7)


def test_the_corrected_reading_agrees_only_at_mu_one():
    one, two = LossConstants(), LossConstants(proximal_mu=2)
    for loss, agree in ((one, True), (two, False)):
        paper, corrected = (
            FullParticipation(loss, BoundSettings(), reading).kappa1 for reading in ("paper", "corrected")
        )
        assert (paper == pytest.approx(corrected)) == agree
    assert corrected / paper == pytest.approx((1 + 0.25) / (0.5 + 0.25))


def test_an_undefined_bound_says_why():
    steep = FullParticipation(LossConstants(smoothness=1), BoundSettings())
    assert steep.why_undefined() == "theorem 2 needs 0 <= P < 1, got P = 1.5"
    assert math.isnan(steep.kappa1)
    assert math.isnan(steep.kappa0)
    assert np.isnan(steep([1, 25])).all()
    assert optimum(steep, 500) is None
    assert "P = -" in FullParticipation(LossConstants(polyak_lojasiewicz=5), BoundSettings()).why_undefined()


SMOOTH = st.floats(0.01, 0.6)


@settings(deadline=None)
@given(SMOOTH, st.floats(1, 300), st.integers(2, 500), st.floats(0.5, 50), st.integers(10, 1000))
def test_the_bound_has_one_minimum(smoothness, epsilon, clients, clip_norm, samples):
    found = FullParticipation(
        LossConstants(smoothness=smoothness),
        BoundSettings(epsilon=epsilon, clients=clients, clip_norm=clip_norm, samples=samples),
    )
    values = found(np.arange(1, 2000))
    steps = np.diff(values)
    steps = steps[np.abs(steps) > 1e-12 * values[1:]]
    rising = np.flatnonzero(steps > 0)
    assert rising.size == 0 or (steps[rising[0] :] > 0).all()


@settings(deadline=None)
@given(SMOOTH, st.floats(1, 300), st.integers(2, 500), st.integers(1, 100), st.floats(1.01, 3))
def test_the_bound_falls_in_epsilon_and_in_clients(smoothness, epsilon, clients, rounds, factor):
    def at(**noise):
        return float(FullParticipation(LossConstants(smoothness=smoothness), BoundSettings(**noise))(rounds))

    here = at(epsilon=epsilon, clients=clients)
    assert at(epsilon=epsilon * factor, clients=clients) < here
    assert at(epsilon=epsilon, clients=clients + 1) < here


def test_the_bound_at_zero_rounds_is_the_initial_gap():
    assert float(bound()(0)) == pytest.approx(math.log(10))


def test_the_bound_is_not_convex_in_the_rounds():
    # The source calls the bound convex in T; it is not.
    bent = FullParticipation(LossConstants(lipschitz=100), BoundSettings())
    assert (np.diff(bent(np.linspace(0, 40, 400)), 2) < -1e-6).any()
