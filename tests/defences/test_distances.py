import numpy as np
import pytest

from asyncfl.defences.distances import inner_product, is_finite, norms, squared_distances, squared_norm


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


def test_non_finite_updates_are_infinitely_far(random):
    updates = random.normal(size=(5, 30)).astype(np.float32)
    updates[1, 3], updates[2, 0] = np.inf, np.nan
    found = squared_distances(updates)
    sound = [0, 3, 4]
    np.testing.assert_array_equal(found[np.ix_(sound, sound)], squared_distances(updates[sound].astype(np.float64)))
    assert (found[1, [0, 2, 3, 4]] == np.inf).all()
    assert (np.diagonal(found) == 0).all()


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
