from __future__ import annotations

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

FUNCTIONS = [
    ConstantStaleness(),
    PolynomialStaleness(exponent=0.7),
    PolynomialStaleness(offset=0),
    HingeStaleness(slope=2.0, grace=3),
    ExponentialStaleness(),
]


def test_golden_numbers_of_safl() -> None:
    weight = PolynomialStaleness().weight(np.arange(5))
    assert weight == pytest.approx([1, 0.707107, 0.577350, 0.5, 0.447214], abs=1e-6)


def test_the_reading_of_equation_2_counts_the_first_version_in_full() -> None:
    assert PolynomialStaleness(offset=0).weight(np.arange(5)) == pytest.approx([1, 1, 0.707107, 0.577350, 0.5])


def test_a_hinge_is_one_within_its_grace_and_has_no_jump_after_it() -> None:
    weight = HingeStaleness(slope=2.0, grace=3).weight(np.arange(6))
    assert weight == pytest.approx([1, 1, 1, 1, 1 / 3, 1 / 5])


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
@given(st.integers(0, 1000))
def test_a_fresh_update_counts_in_full_and_an_older_one_never_more(function: Staleness, age: int) -> None:
    weight = function.weight(np.array([0, age, age + 1]))
    assert weight[0] == 1
    assert 1 >= weight[1] >= weight[2] >= 0
