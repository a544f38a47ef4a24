import numpy as np
import pytest

from asyncfl.defences.distances import squared_distances


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


def test_far_from_the_origin_too(random):
    assert relative_error((100 + random.normal(size=(8, 5000))).astype(np.float32)) < 1e-6


def test_colluders_close_to_one_another_keep_their_digits(random):
    updates = random.normal(size=(12, 3000))
    updates[:3] = updates[0] + 1e-3 * random.normal(size=(3, 3000))
    updates[5:7] = updates[5] + 1e-2 * random.normal(size=(2, 3000))
    assert relative_error(updates.astype(np.float32)) < 1e-6


def test_equal_rows_are_at_distance_zero(random):
    updates = random.normal(size=(9, 1000)).astype(np.float32)
    updates[4:] = updates[4]
    assert (squared_distances(updates)[4:, 4:] == 0).all()
    assert relative_error(updates) < 1e-6


def test_one_update_has_no_distance():
    assert squared_distances(np.ones((1, 4), dtype=np.float32)).tolist() == [[0]]


def test_matrix_is_symmetric(random):
    found = squared_distances(random.normal(size=(20, 300)).astype(np.float32))
    np.testing.assert_array_equal(found, found.T)
