"""Convergence bound of theorem 2."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.queries.convergence_bounds import (
    BoundSettings,
    FullParticipation,
    LossConstants,
    PartialParticipation,
    optimum,
)
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


LOSS = LossConstants(smoothness=0.1)


def partial(epsilon=6.0):
    return PartialParticipation(LOSS, BoundSettings(epsilon=epsilon))


def test_constants_and_bound_equal_the_published_values():
    found = partial()
    assert float(found.contraction(20)) == pytest.approx(0.42332816, abs=5e-9)
    assert float(found.alpha0(20)) == pytest.approx(0.18)
    assert float(found.alpha1(20)) == pytest.approx(1.21788854, abs=5e-9)
    assert float(found(25, 20)) == pytest.approx(0.08666987, abs=5e-9)


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
