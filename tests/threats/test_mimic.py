"""Copies of one client's update."""

import numpy as np

from asyncfl.threats import Mimic


def test_first_update_is_copied_like_byzfl(make_view):
    view = make_view(honest=[[7, 7, 7, 7]] * 2, others=[[0, 1, -2, 4], [2, 0, -1, 0.25]])
    np.testing.assert_array_equal(Mimic().craft(view), [[0, 1, -2, 4]] * 2)


def test_outlying_is_farthest_along_the_first_principal_component(make_view):
    view = make_view(honest=[[99, 0]] * 2, others=[[0, 0.1], [1, -0.2], [-2, 0.3], [9, 0], [0, 5]])
    np.testing.assert_array_equal(Mimic(victim="outlying").craft(view), [[9, 0]] * 2)


def test_colluders_copy_one_of_their_updates(make_view):
    view = make_view(others=[[7, 7, 7, 7]])
    np.testing.assert_array_equal(Mimic(knowledge="colluders").craft(view), view.honest[[0] * 4])
