"""Scaled updates and model replacement."""

import numpy as np

from asyncfl.threats import Scaling


def test_update_is_lengthened(make_view):
    view = make_view()
    np.testing.assert_array_equal(Scaling().craft(view), 10 * view.honest)


def test_replacement_replaces_the_mean(make_view):
    wanted = np.array([4.0, -8.0], np.float32)
    honest_rest = np.zeros((8, 2), np.float32)
    view = make_view(honest=[wanted, wanted], others=honest_rest)
    crafted = Scaling(factor="replacement").craft(view)
    np.testing.assert_allclose(np.concatenate([crafted, honest_rest]).mean(axis=0), wanted)


def test_overflowing_uploads_become_infinite(make_view):
    crafted = Scaling(factor=1e30).craft(make_view(honest=[[1e20, -1e20, 0.0]]))
    np.testing.assert_array_equal(crafted, [[np.inf, -np.inf, 0]])
