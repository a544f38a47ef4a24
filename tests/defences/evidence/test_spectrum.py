"""Points from a noisy Gram matrix whose diagonal is worthless, and their medians."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.defences.evidence import spectrum
from asyncfl.defences.evidence.spectrum import embed, geometric_medians, product_std


def planted(n=120, seed=0, noise=0.05, signal_rank=2):
    random = np.random.default_rng(seed)
    points = random.normal(size=(n, signal_rank)) + 1
    disturbance = random.normal(0, noise, (n, n))
    gram = points @ points.T + (disturbance + disturbance.T) / np.sqrt(2)
    np.fill_diagonal(gram, 1e6)
    return points, gram


def test_inner_products_of_the_signals_are_recovered():
    points, gram = planted()
    found = embed(gram, 0.05)
    assert found.points.shape == (120, 2)
    assert np.abs(found.points @ found.points.T - points @ points.T).max() < 0.2
    eigenvalues = np.sort(np.linalg.eigvalsh(points.T @ points))[::-1]
    assert found.noise == pytest.approx(0.05 / np.sqrt(eigenvalues), rel=1e-2)


def test_a_large_matrix_is_refined_to_the_same_points(monkeypatch):
    _, gram = planted(n=150, signal_rank=3, noise=0.3)
    exact = embed(gram, 0.3)
    monkeypatch.setattr(spectrum, "LARGE", 10)
    quick = embed(gram, 0.3)
    assert quick.points @ quick.points.T == pytest.approx(exact.points @ exact.points.T, abs=1e-5)


def test_noise_of_an_inner_product():
    """sigma^4 d + 2 sigma^2 rho, with rho the median of off-diagonal elements and at least 0."""
    gram = np.array([[9.0, 0.5, 0.5], [0.5, 9, 0.2], [0.5, 0.2, 9]])
    assert product_std(gram, 100, 0.1) == pytest.approx(np.sqrt(0.1**4 * 100 + 2 * 0.1**2 * 0.5))
    assert product_std(-gram, 100, 0.1) == pytest.approx(np.sqrt(0.1**4 * 100))


def test_eigenvalues_below_the_edge_of_the_noise_are_dropped():
    gram = np.ones((4, 4))  # its eigenvalue, without the diagonal, is 3
    bar = 3 / (1.3 * 2 * np.sqrt(4))
    assert embed(gram, 0.999 * bar).points.shape == (4, 1)
    assert embed(gram, 1.001 * bar) is None


# --- medians ---

clouds = st.integers(0, 500).map(lambda seed: np.random.default_rng(seed).normal(size=(9, 3)))


def median(points, weights=None, **kwargs):
    points = np.array(points, dtype=float)
    weights = np.ones(len(points)) if weights is None else np.array(weights, dtype=float)
    return geometric_medians(points, weights[None], **kwargs)[0]


def test_point_with_more_than_half_of_the_weight_is_the_median():
    assert median([(1, 0)] * 6 + [(-1, 5)] * 4) == pytest.approx([1, 0], abs=1e-6)
    assert median([(1, 0), (9, 9), (-3, 2)], [5, 1, 1]) == pytest.approx([1, 0], abs=1e-6)


@settings(deadline=None)
@given(clouds)
def test_median_is_a_local_minimum(points):
    found = median(points, steps=300)
    cost = np.linalg.norm(points - found, axis=1).sum()
    for step in np.concatenate([np.eye(3), -np.eye(3)]) * 0.05:
        assert cost <= np.linalg.norm(points - found - step, axis=1).sum() + 1e-6
