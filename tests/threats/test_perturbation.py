"""Min-Max and Min-Sum: the constraint is tight at gamma, and broken just beyond."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.threats import AttackView, MinMax, MinSum
from asyncfl.threats import informed as arithmetic


def seen(rows):
    rows = rows.astype(np.float32)
    zero = np.zeros(rows.shape[1], np.float32)
    return AttackView(rows, rows, np.zeros_like(rows), zero, len(rows), 0, ())


def distances(points, rows):
    return ((points[:, None, :] - rows[None, :, :]) ** 2).sum(axis=2)


def furthest(points, rows):
    return distances(points, rows).max(axis=1)


def summed(points, rows):
    return distances(points, rows).sum(axis=1)


def by_halving(measure, rows, p):
    """The source's search, on distances computed straight from the vectors."""
    mean, limit = rows.mean(axis=0), measure(rows, rows).max()
    low, high = 0.0, 1e6
    for _ in range(80):
        gamma = (low + high) / 2
        allowed = measure((mean + gamma * p)[None], rows)[0] <= limit
        low, high = (gamma, high) if allowed else (low, gamma)
    return low


def perturbation(direction, rows):
    mean = rows.mean(axis=0)
    return {"unit": -mean / np.linalg.norm(mean), "std": -rows.std(axis=0, ddof=1), "sign": -np.sign(mean)}[direction]


@pytest.mark.parametrize("direction", ["unit", "std", "sign"])
@pytest.mark.parametrize(("attack", "measure"), [(MinMax, furthest), (MinSum, summed)])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 9), d=st.integers(1, 40))
def test_constraint_is_tight_at_gamma_and_violated_beyond(attack, measure, direction, seed, n, d):
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(n, d)) + rng.normal(size=d)).astype(np.float32).astype(np.float64)
    mean, p = rows.mean(axis=0), perturbation(direction, rows)
    crafted = attack(direction=direction).craft(seen(rows))
    assert (crafted == crafted[0]).all()
    gamma = float((crafted[0] - mean) @ p / (p @ p))
    limit = measure(rows, rows).max()
    np.testing.assert_allclose(crafted[0], mean + gamma * p, atol=1e-4 * (1 + np.abs(crafted[0]).max()))
    np.testing.assert_allclose(gamma, by_halving(measure, rows, p), rtol=1e-3, atol=1e-5)
    assert measure((mean + gamma * p)[None], rows)[0] == pytest.approx(limit, rel=1e-3)
    assert measure((mean + (gamma * 1.01 + 1e-3) * p)[None], rows)[0] > limit


def test_by_hand():
    # Mean 1, deviation sqrt 2, largest distance 2: the upload may stand 2 from the farther row.
    rows = np.array([[0.0], [2.0]])
    np.testing.assert_allclose(MinMax().craft(seen(rows)), [[0.0]] * 2, atol=1e-7)
    # Sums of squares: 4 for each row; (x - 0)^2 + (x - 2)^2 = 4 at x = 0.
    np.testing.assert_allclose(MinSum().craft(seen(rows)), [[0.0]] * 2, atol=1e-7)
    # Rows 0, 1, 5: mean 2, largest distance 5, so x >= 0; sums 26, 17, 41: 3 (x-2)^2 + 14 = 41 at x = -1.
    rows = np.array([[0.0], [1.0], [5.0]])
    np.testing.assert_allclose(MinMax(direction="sign").craft(seen(rows)), [[0.0]] * 3, atol=1e-6)
    np.testing.assert_allclose(MinSum(direction="unit").craft(seen(rows)), [[-1.0]] * 3, atol=1e-6)


@pytest.mark.parametrize("attack", [MinMax, MinSum])
@pytest.mark.parametrize("direction", ["unit", "std", "sign"])
def test_mean_is_uploaded_without_a_direction(attack, direction):
    rows = np.zeros((3, 2)) if direction != "std" else np.full((3, 2), 2.0)
    np.testing.assert_array_equal(attack(direction=direction).craft(seen(rows)), rows)


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
