"""Staleness functions: each against its formula."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.server.staleness import (
    ConstantStaleness,
    ExponentialStaleness,
    HingeStaleness,
    PolynomialStaleness,
    Staleness,
)

TAU = np.arange(6)


def test_constant_weights_are_1() -> None:
    assert ConstantStaleness().weight(TAU).tolist() == [1] * 6


def test_polynomial_weights_are_1_plus_tau_to_the_power_of_minus_a() -> None:
    roots = [1, 1 / math.sqrt(2), 1 / math.sqrt(3), 1 / 2, 1 / math.sqrt(5), 1 / math.sqrt(6)]
    assert PolynomialStaleness().weight(TAU) == pytest.approx(roots, rel=1e-12)
    squares = [1, 1 / 4, 1 / 9, 1 / 16, 1 / 25, 1 / 36]
    assert PolynomialStaleness(exponent=2.0).weight(TAU) == pytest.approx(squares, rel=1e-12)
    # SAFL's equation 2, tau^-a with s(0) = 1: an update that is one version old has weight 1 as well.
    assert PolynomialStaleness(offset=0).weight(TAU) == pytest.approx([1, *roots[:5]], rel=1e-12)


def test_hinge_weights_are_1_up_to_b_and_fall_with_slope_a_beyond() -> None:
    # 1 / (a (tau - b) + 1)
    assert HingeStaleness(slope=2.0, grace=3).weight(TAU) == pytest.approx([1, 1, 1, 1, 1 / 3, 1 / 5], rel=1e-12)
    assert HingeStaleness().weight(TAU) == pytest.approx([1, 1, 1, 1, 1, 1 / 11], rel=1e-12)


def test_exponential_weights_are_e_to_the_power_of_minus_a_tau() -> None:
    halves = [1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32]
    assert ExponentialStaleness(rate=math.log(2)).weight(TAU) == pytest.approx(halves, rel=1e-12)
    assert ExponentialStaleness().weight(TAU) == pytest.approx([math.exp(-0.2 * tau) for tau in range(6)], rel=1e-12)


@pytest.mark.parametrize(
    "function",
    [ConstantStaleness(), PolynomialStaleness(exponent=0.7), HingeStaleness(slope=0.1), ExponentialStaleness()],
    ids=str,
)
@given(st.integers(0, 1000))
def test_stale_updates_never_weigh_more_than_fresher_ones(function: Staleness, staleness: int) -> None:
    weight = function.weight(np.array([0, staleness, staleness + 1]))
    assert weight[0] == 1
    assert 1 >= weight[1] >= weight[2] >= 0


def test_only_weights_that_never_fall_are_constant() -> None:
    assert ConstantStaleness().is_constant
    assert PolynomialStaleness(exponent=0).is_constant
    assert not PolynomialStaleness().is_constant
