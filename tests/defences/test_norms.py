import numpy as np
import pytest

from asyncfl.defences.distances import inner_product, is_finite, norms, squared_norm

HUGE = np.array([3e38, -3e38, 1e19], dtype=np.float32)


def test_squares_beyond_float32_do_not_overflow():
    assert squared_norm(HUGE) == pytest.approx(1.8e77)
    assert inner_product(HUGE, np.array([1, 1, 1], np.float32)) == pytest.approx(1e19)
    assert norms(np.stack([HUGE, HUGE * 0])) == pytest.approx([np.sqrt(1.8) * 10**38.5, 0])


def test_huge_numbers_are_finite():
    assert is_finite(HUGE)
    assert is_finite(np.zeros(3, np.float32))
    for bad in (np.nan, np.inf, -np.inf):
        assert not is_finite(np.array([1, bad], np.float32))
