"""Points from a noisy Gram matrix whose diagonal is worthless."""

import numpy as np
import pytest

from asyncfl.defences.spectral import spectrum
from asyncfl.defences.spectral.spectrum import embed, product_std


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
    assert found.eigenvalues == pytest.approx(np.sort(np.linalg.eigvalsh(points.T @ points))[::-1], rel=1e-2)
    assert found.noise == pytest.approx(0.05 / np.sqrt(found.eigenvalues))


def test_pure_noise_has_no_embedding():
    assert (
        embed(planted(signal_rank=1, seed=1)[1] * 0 + np.random.default_rng(0).normal(0, 1e-9, (120, 120)), 1.0) is None
    )
    disturbance = np.random.default_rng(0).normal(size=(200, 200))
    assert embed((disturbance + disturbance.T) / np.sqrt(2), 1.0) is None


def test_number_of_components_is_limited():
    assert embed(planted(signal_rank=5, noise=0.01)[1], 0.01, components=3).points.shape == (120, 3)


def test_a_large_matrix_is_refined_to_the_same_points(monkeypatch):
    _, gram = planted(n=150, signal_rank=3, noise=0.3)
    exact = embed(gram, 0.3)
    monkeypatch.setattr(spectrum, "LARGE", 10)
    quick = embed(gram, 0.3)
    assert quick.eigenvalues == pytest.approx(exact.eigenvalues, rel=1e-6)
    assert quick.points @ quick.points.T == pytest.approx(exact.points @ exact.points.T, abs=1e-5)


def test_noise_of_an_inner_product():
    """sigma^4 d + 2 sigma^2 rho, with rho the median of off-diagonal elements and at least 0."""
    gram = np.array([[9.0, 0.5, 0.5], [0.5, 9, 0.2], [0.5, 0.2, 9]])
    assert product_std(gram, 100, 0.1) == pytest.approx(np.sqrt(0.1**4 * 100 + 2 * 0.1**2 * 0.5))
    assert product_std(-gram, 100, 0.1) == pytest.approx(np.sqrt(0.1**4 * 100))
    assert product_std(gram, 100, 0.0, extra_variance=4.0) == pytest.approx(2)


def test_eigenvalues_below_the_bar_are_dropped():
    gram = np.ones((4, 4))  # its eigenvalue, without the diagonal, is 3
    bar = 3 / (2 * np.sqrt(4))
    assert embed(gram, 0.0, weakest=1.0) is None
    assert embed(gram, 0.999 * bar, edge_factor=1.0).points.shape == (4, 1)
    assert embed(gram, 1.001 * bar, edge_factor=1.0) is None
