"""Convergence bound of theorem 2."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.bounds import BoundSettings, FullParticipation, LossConstants, PartialParticipation, optimum
from asyncfl.privacy.schemes.nbafl import paper_discount


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


LOSS = LossConstants(smoothness=0.1)


def partial(epsilon=6.0):
    return PartialParticipation(LOSS, BoundSettings(epsilon=epsilon))


def test_constants_and_bound_equal_the_published_values():
    found = partial()
    assert float(found.contraction(20)) == pytest.approx(0.42332816, abs=5e-9)
    assert float(found.alpha0(20)) == pytest.approx(0.18)
    assert float(found.alpha1(20)) == pytest.approx(1.21788854, abs=5e-9)
    assert float(found(25, 20)) == pytest.approx(0.08666987, abs=5e-9)


def test_the_bound_is_undefined_where_the_logarithm_is():
    assert np.isnan(partial(50.0)(25, 20))
    assert partial(50.0).why_undefined(25, 20) == (
        "theorem 3 needs epsilon/T < -ln(1 - K/N) = 0.510826, got epsilon/T = 2"
    )
    assert partial().why_undefined(25, 20) is None


def test_full_participation_is_always_defined():
    assert np.isfinite(partial(1e6)(25, 50))
    assert float(partial(1e6).discounted_budget(25, 50)) == 1e6 / 25


@settings(deadline=None)
@given(st.floats(0.1, 300), st.integers(1, 300), st.integers(1, 50))
def test_round_budget_matches_equation_7(epsilon, rounds, participants):
    b = paper_discount(epsilon, rounds, participants / 50)
    found = float(partial(epsilon).discounted_budget(rounds, participants))
    if b is None:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(b * epsilon / rounds, rel=1e-9)


@settings(deadline=None)
@given(st.floats(0.5, 50), st.integers(1, 300), st.integers(4, 50))
def test_an_undefined_bound_of_theorem_3_says_why(epsilon, rounds, participants):
    found = partial(epsilon)
    assert np.isnan(found(rounds, participants)) == (found.why_undefined(rounds, participants) is not None)


def test_the_bound_is_undefined_at_the_edge():
    # epsilon/T = -ln(1 - K/N), where the logarithm's argument is 0.
    edge = partial(math.log(2))
    assert math.isnan(float(edge.discounted_budget(1, 25)))
    assert edge.why_undefined(1, 25) == (
        "theorem 3 needs epsilon/T < -ln(1 - K/N) = 0.693147, got epsilon/T = 0.693147"
    )


PARTIAL = PartialParticipation(LossConstants(smoothness=0.1), BoundSettings(epsilon=6))


def test_an_optimum_at_the_end_of_the_range_is_not_interior():
    found = optimum(FullParticipation(LossConstants(), BoundSettings()), 10)
    assert (found.best, found.interior) == (10, False)


def test_theorem_3_is_minimised_where_it_is_defined():
    rounds, participants = optimum(lambda T: PARTIAL(T, 20), 500), optimum(lambda K: PARTIAL(25, K), 50)
    assert rounds.bound == np.nanmin(PARTIAL(np.arange(1, 501), 20))
    assert participants.bound == np.nanmin(PARTIAL(25, np.arange(1, 51)))
    # Both lie at the edge beyond which the logarithm of equation 8 does not exist, where its noise term vanishes.
    assert (rounds.best, rounds.interior) == (12, False)
    assert (participants.best, participants.interior) == (11, False)


def test_a_bound_that_is_nowhere_defined_has_no_optimum():
    assert optimum(lambda K: PartialParticipation(LossConstants(), BoundSettings())(25, K), 50) is None


def within(low, high, at):
    """A parabola around `at` that is defined from `low` to `high` alone."""
    return lambda t: np.where((t >= low) & (t <= high), (t - at) ** 2 + 3, np.nan)


@pytest.mark.parametrize(
    ("low", "high", "at", "best", "real", "interior"),
    [
        (1, 20, 5.2, 5, 5.2, True),
        (1, 20, 4.51, 5, 4.51, True),
        (1, 20, 5.49, 5, 5.49, True),
        (3, 9, 3.4, 3, 3.4, False),
        (3, 9, 2.0, 3, 3.0, False),
        (3, 9, 8.7, 9, 8.7, False),
        (3, 9, 30.0, 9, 9.0, False),
        (4, 4, 4.3, 4, 4.0, False),
        (3.8, 5.2, 4.3, 4, 4.3, False),
    ],
)
def test_best_integer_and_best_real_number_of_a_parabola(low, high, at, best, real, interior):
    found = optimum(within(low, high, at), 10 if high < 10 else 20)
    assert (found.best, found.interior) == (best, interior)
    assert found.bound == pytest.approx((best - at) ** 2 + 3)
    assert found.real == pytest.approx(real, abs=2e-5)
