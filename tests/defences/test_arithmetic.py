"""Distances, middle means and products with a Hessian: against plain arithmetic, and for numbers of any finite size."""

import itertools

import numpy as np
import pytest

from asyncfl.defences.distances import inner_product, is_finite, norms, squared_distances, squared_norm
from asyncfl.defences.gradients import hessian
from asyncfl.defences.sorting import NETWORK_LIMIT, middle_mean, network


def exact(updates):
    wide = updates.astype(np.float64)
    return ((wide[:, None] - wide[None]) ** 2).sum(axis=2)


def relative_error(updates):
    wanted = exact(updates)
    apart = wanted > 0
    found = squared_distances(updates)
    assert (found[~apart] == 0).all()
    return (np.abs(found - wanted)[apart] / wanted[apart]).max()


@pytest.mark.parametrize("n", [2, 3, 10])
@pytest.mark.parametrize("d", [1, 100, 16385])
def test_error_is_below_a_millionth(n, d, random):
    assert relative_error(random.normal(size=(n, d)).astype(np.float32)) < 1e-6


def test_error_is_small_far_from_the_origin(random):
    assert relative_error((100 + random.normal(size=(8, 5000))).astype(np.float32)) < 1e-6


def test_distances_between_close_colluders_are_precise(random):
    updates = random.normal(size=(12, 3000))
    updates[:3] = updates[0] + 1e-3 * random.normal(size=(3, 3000))
    updates[5:7] = updates[5] + 1e-2 * random.normal(size=(2, 3000))
    assert relative_error(updates.astype(np.float32)) < 1e-6


def test_equal_rows_have_distance_zero(random):
    updates = random.normal(size=(9, 1000)).astype(np.float32)
    updates[4:] = updates[4]
    assert (squared_distances(updates)[4:, 4:] == 0).all()
    assert relative_error(updates) < 1e-6


@pytest.mark.parametrize("size", [1e3, 1e10, 1e19, 1e30, 3e38])
def test_distances_of_updates_of_any_finite_size(random, size):
    updates = random.normal(size=(12, 3000)).astype(np.float32)
    updates[[1, 5]] = (size * random.uniform(-1, 1, size=(2, 3000))).astype(np.float32)
    updates[7] = np.float32(np.sqrt(size)) * updates[7]
    assert relative_error(updates) < 3e-6


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


@pytest.mark.parametrize("n", range(1, 13))
def test_network_sorts_all_zero_one_inputs(n):
    # A network that is right for all zeros and ones is right for all numbers (Knuth's 0-1 principle).
    bits = np.array(list(itertools.product([0, 1], repeat=n)), dtype=np.float32).T
    for drop in range(n // 2 + 1):
        rows = [row.copy() for row in bits]
        for low, high in network(n, drop):
            rows[low], rows[high] = np.minimum(rows[low], rows[high]), np.maximum(rows[low], rows[high])
        done, wanted = np.array(rows), np.sort(bits, axis=0)
        np.testing.assert_array_equal(np.sort(done[:drop], axis=0), wanted[:drop])
        np.testing.assert_array_equal(np.sort(done[n - drop :], axis=0), wanted[n - drop :])


@pytest.mark.parametrize("n", [1, 2, 5, 10, 33, NETWORK_LIMIT + 1])
def test_middle_mean_is_the_mean_of_the_sorted_middle(n, random):
    updates = random.normal(size=(n, 20_000 if n < 11 else 50))
    for drop in {0, (n - 1) // 4, (n - 1) // 2}:
        wanted = np.sort(updates, axis=0)[drop : n - drop].mean(axis=0)
        np.testing.assert_allclose(middle_mean(updates, drop), wanted, rtol=1e-12, atol=1e-14)


def dense(steps, changes):
    """The same estimate by rank-two updates of whole matrices (Broyden, Fletcher, Goldfarb, Shanno)."""
    sigma = steps[-1] @ changes[-1] / (steps[-1] @ steps[-1])
    estimate = sigma * np.eye(len(steps[0]))
    for s, y in zip(steps, changes, strict=True):
        seen = estimate @ s
        estimate = estimate - np.outer(seen, seen) / (s @ seen) + np.outer(y, y) / (y @ s)
    return estimate


def pairs(number, size=6):
    random = np.random.default_rng(number)
    half = random.normal(size=(size, size))
    curvature = half @ half.T + np.eye(size)
    steps = random.normal(size=(number, size))
    return curvature, list(steps), list(steps @ curvature)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_compact_form_equals_bfgs_updates(number):
    _, steps, changes = pairs(number)
    along = np.arange(6.0)
    np.testing.assert_allclose(
        hessian(list(zip(steps, changes, strict=True)))(along), dense(steps, changes) @ along, rtol=1e-8
    )


def test_secant_equation_holds_and_conjugate_steps_give_the_hessian():
    curvature, steps, changes = pairs(3)
    np.testing.assert_allclose(hessian(list(zip(steps, changes, strict=True)))(steps[-1]), changes[-1], rtol=1e-8)
    # Of a quadratic, with steps that are conjugate: nothing is lost.
    axes = list(np.linalg.eigh(curvature)[1].T)
    product = hessian([(axis, curvature @ axis) for axis in axes])
    np.testing.assert_allclose(product(np.ones(6)), curvature @ np.ones(6), rtol=1e-8)
