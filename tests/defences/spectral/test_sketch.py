"""Count sketches: linear, and inner products kept with the variance that is claimed."""

import numpy as np
import pytest

from asyncfl.defences.spectral.sketch import draw_sketch


def test_a_sketch_is_linear():
    random = np.random.default_rng(0)
    sketch = draw_sketch(50, 7, random)
    x, y = random.normal(size=(2, 50)).astype(np.float32)
    both = sketch(np.stack([x, y, x + 2 * y]))
    assert both.shape == (3, 7)
    np.testing.assert_allclose(both[2], both[0] + 2 * both[1], atol=1e-5)


def test_inner_products_are_kept_on_average():
    random = np.random.default_rng(1)
    x, y = random.normal(size=(2, 60)).astype(np.float32)
    y += 0.5 * x
    products = []
    for _ in range(3000):
        sx, sy = draw_sketch(60, 16, random)(np.stack([x, y]))
        products.append(float(sx @ sy))
    exact = float(x @ y)
    claimed = float((x @ x) * (y @ y) + exact**2) / 16
    assert np.mean(products) == pytest.approx(exact, abs=4 * np.sqrt(claimed / 3000))
    assert np.var(products) == pytest.approx(claimed, rel=0.15)
