"""Just enough: never too little, and hardly more than is needed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.privacy.accounting.roots import just_enough


@given(st.floats(1e-50, 1e50), st.floats(1e-50, 1e50), st.sampled_from([0.3, 1.0, 7.0]))
def test_it_is_found_from_anywhere(needed: float, start: float, power: float) -> None:
    found = just_enough(lambda x: (needed / x) ** power - 1 if x > needed / 1e9 else 1e9, start)
    assert (needed / found) ** power <= 1
    assert found == pytest.approx(needed, rel=4e-15)


def test_a_step_is_found_on_its_upper_side() -> None:
    assert just_enough(lambda x: 1.0 if x < 3 else -1.0) == pytest.approx(3, rel=1e-15)
    assert just_enough(lambda x: 1.0 if x < 3 else -1.0) >= 3
    assert just_enough(lambda x: 1.0 if x < 3 else 0.0, 3.0) == 3
    coarse = just_enough(lambda x: math.log(3 / x), precision=1e-3)
    assert 3 <= coarse <= 3 * (1 + 3e-3)


def test_where_next_to_nothing_is_enough_it_is_told_so() -> None:
    asked = []

    def missing(x: float) -> float:
        asked.append(x)
        return -1.0

    assert 0 < just_enough(missing, least=1e-12) < 1e-12
    assert len(asked) < 50
