"""Block-wise arithmetic against whole arrays."""

import numpy as np
import pytest

from asyncfl.threats import informed as arithmetic


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(arithmetic, "BLOCK", 7)


@pytest.mark.usefixtures("small_blocks")
def test_moments_and_products_do_not_depend_on_blocks():
    rng = np.random.default_rng(0)
    values = rng.normal(3, 2, size=(5, 30)).astype(np.float32)
    exact = values.astype(np.float64)
    mean, deviation = arithmetic.mean_and_deviation(values)
    np.testing.assert_allclose(mean, exact.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(deviation, exact.std(axis=0, ddof=1), rtol=1e-14)
    direction = rng.normal(size=30)
    gram, along = arithmetic.centred_products(values, mean, direction)
    centred = exact - mean
    np.testing.assert_allclose(gram, centred @ centred.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(along, centred @ direction, rtol=1e-12, atol=1e-12)


def test_large_values_do_not_overflow_in_moments():
    mean, _ = arithmetic.mean_and_deviation(np.full((2, 3), 3e38, np.float32))
    assert np.isfinite(mean).all()
