"""Theorem 3."""

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


def test_constants_and_value():
    found = bound()
    assert float(found.contraction(20)) == pytest.approx(0.42332816, abs=5e-9)
    assert float(found.alpha0(20)) == pytest.approx(0.18)
    assert float(found.alpha1(20)) == pytest.approx(1.21788854, abs=5e-9)
    assert float(found(25, 20)) == pytest.approx(0.08666987, abs=5e-9)


def test_is_undefined_where_the_logarithm_is():
    assert np.isnan(bound(50.0)(25, 20))
    assert bound(50.0).why_undefined(25, 20) == (
        "theorem 3 needs epsilon/T < -ln(1 - K/N) = 0.510826, got epsilon/T = 2"
    )
    assert bound().why_undefined(25, 20) is None


def test_is_undefined_where_it_does_not_contract():
    steep = PartialParticipation(LossConstants(), BoundSettings(epsilon=6))
    assert steep.why_undefined(25, 20).startswith("theorem 3 needs 0 <= Q < 1, got Q = 1.2222")
    assert np.isnan(steep(25, 20))


def test_shapes_broadcast():
    assert bound()(np.arange(20, 30)[:, None], np.array([10, 20, 50])).shape == (10, 3)


def test_all_taking_part_is_always_defined():
    assert np.isfinite(bound(1e6)(25, 50))
    assert float(bound(1e6).discounted_budget(25, 50)) == 1e6 / 25


@settings(deadline=None)
@given(st.floats(0.1, 300), st.integers(1, 300), st.integers(1, 50))
def test_budget_of_a_round_is_that_of_equation_7(epsilon, rounds, participants):
    b = paper_discount(epsilon, rounds, participants / 50)
    found = float(bound(epsilon).discounted_budget(rounds, participants))
    if b is None:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(b * epsilon / rounds, rel=1e-9)


@settings(deadline=None)
@given(st.floats(0.5, 50), st.integers(1, 300), st.integers(4, 50))
def test_is_defined_or_says_why_not(epsilon, rounds, participants):
    found = bound(epsilon)
    assert np.isnan(found(rounds, participants)) == (found.why_undefined(rounds, participants) is not None)


def test_theorem_3_says_something_where_nothing_of_the_gap_is_left():
    """K = 4: drift = 2.75 + 3, so that Q = 1 + 4 (5.75 - 6) = 0."""
    loss = LossConstants(smoothness=1, proximal_mu=6, polyak_lojasiewicz=72)
    found = PartialParticipation(loss, BoundSettings(clients=4))
    assert found.contraction(4) == 0
    assert found.why_undefined(25, 4) is None


def test_the_edge_of_where_it_is_defined_is_outside():
    # epsilon/T = -ln(1 - K/N), where the logarithm's argument is 0.
    edge = bound(math.log(2))
    assert math.isnan(float(edge.discounted_budget(1, 25)))
    assert edge.why_undefined(1, 25) == (
        "theorem 3 needs epsilon/T < -ln(1 - K/N) = 0.693147, got epsilon/T = 0.693147"
    )


def test_a_gap_that_is_gone_after_a_round_is_defined():
    # sqrt(16) and halves: Q is 0 exactly.
    at_once = PartialParticipation(
        LossConstants(smoothness=0.25, polyak_lojasiewicz=2.1333333333333333), BoundSettings(epsilon=6)
    )
    assert float(at_once.contraction(16)) == 0
    assert at_once.why_undefined(25, 16) is None
    assert 0 < float(at_once(25, 16)) < math.inf
