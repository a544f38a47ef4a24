"""The root finder never returns too little."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.privacy.accounting.roots import smallest_sufficient


@given(st.floats(1e-50, 1e50), st.floats(1e-50, 1e50), st.sampled_from([0.3, 1.0, 7.0]))
def test_the_root_is_found_from_any_start(needed: float, start: float, power: float) -> None:
    found = smallest_sufficient(lambda x: (needed / x) ** power - 1 if x > needed / 1e9 else 1e9, start)
    assert (needed / found) ** power <= 1
    assert found == pytest.approx(needed, rel=4e-15)


def test_a_jump_is_found_on_its_upper_side() -> None:
    assert smallest_sufficient(lambda x: 1.0 if x < 3 else -1.0) == pytest.approx(3, rel=1e-15)
    assert smallest_sufficient(lambda x: 1.0 if x < 3 else -1.0) >= 3
    assert smallest_sufficient(lambda x: 1.0 if x < 3 else 0.0, 3.0) == 3
    coarse = smallest_sufficient(lambda x: math.log(3 / x), precision=1e-3)
    assert 3 <= coarse <= 3 * (1 + 3e-3)
