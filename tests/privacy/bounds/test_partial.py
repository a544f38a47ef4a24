"""Convergence bound of theorem 3."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.bounds import BoundSettings, LossConstants, PartialParticipation
from asyncfl.privacy.noise.server_noise import paper_discount

LOSS = LossConstants(smoothness=0.1)


def bound(epsilon=6.0):
    return PartialParticipation(LOSS, BoundSettings(epsilon=epsilon))


def test_constants_and_bound_equal_the_published_values():
    found = bound()
    assert float(found.contraction(20)) == pytest.approx(0.42332816, abs=5e-9)
    assert float(found.alpha0(20)) == pytest.approx(0.18)
    assert float(found.alpha1(20)) == pytest.approx(1.21788854, abs=5e-9)
    assert float(found(25, 20)) == pytest.approx(0.08666987, abs=5e-9)


def test_the_bound_is_undefined_where_the_logarithm_is():
    assert np.isnan(bound(50.0)(25, 20))
    assert bound(50.0).why_undefined(25, 20) == (
        "theorem 3 needs epsilon/T < -ln(1 - K/N) = 0.510826, got epsilon/T = 2"
    )
    assert bound().why_undefined(25, 20) is None


def test_full_participation_is_always_defined():
    assert np.isfinite(bound(1e6)(25, 50))
    assert float(bound(1e6).discounted_budget(25, 50)) == 1e6 / 25


@settings(deadline=None)
@given(st.floats(0.1, 300), st.integers(1, 300), st.integers(1, 50))
def test_round_budget_matches_equation_7(epsilon, rounds, participants):
    b = paper_discount(epsilon, rounds, participants / 50)
    found = float(bound(epsilon).discounted_budget(rounds, participants))
    if b is None:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(b * epsilon / rounds, rel=1e-9)


@settings(deadline=None)
@given(st.floats(0.5, 50), st.integers(1, 300), st.integers(4, 50))
def test_an_undefined_bound_says_why(epsilon, rounds, participants):
    found = bound(epsilon)
    assert np.isnan(found(rounds, participants)) == (found.why_undefined(rounds, participants) is not None)


def test_the_bound_is_undefined_at_the_edge():
    # epsilon/T = -ln(1 - K/N), where the logarithm's argument is 0.
    edge = bound(math.log(2))
    assert math.isnan(float(edge.discounted_budget(1, 25)))
    assert edge.why_undefined(1, 25) == (
        "theorem 3 needs epsilon/T < -ln(1 - K/N) = 0.693147, got epsilon/T = 0.693147"
    )
