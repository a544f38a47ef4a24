"""Copying one client."""

import numpy as np
import pytest

from asyncfl.threats import Mimic


def test_first_of_the_buffer_as_byzfl_has_it(make_view):
    view = make_view(honest=[[7, 7, 7, 7]] * 2, others=[[0, 1, -2, 4], [2, 0, -1, 0.25]])
    np.testing.assert_array_equal(Mimic().craft(view), [[0, 1, -2, 4]] * 2)


def test_outlying_is_the_one_farthest_along_what_differs_most(make_view):
    view = make_view(honest=[[99, 0]] * 2, others=[[0, 0.1], [1, -0.2], [-2, 0.3], [9, 0], [0, 5]])
    np.testing.assert_array_equal(Mimic(victim="outlying").craft(view), [[9, 0]] * 2)


def test_outlying_does_not_depend_on_the_order(make_view):
    rows = np.random.default_rng(0).normal(size=(6, 5))
    copies = [Mimic(victim="outlying").craft(make_view(honest=rows[:1], others=part)) for part in (rows, rows[::-1])]
    np.testing.assert_array_equal(*copies)


def test_colluders_copy_one_of_themselves(make_view):
    view = make_view(others=[[7, 7, 7, 7]])
    np.testing.assert_array_equal(Mimic(knowledge="colluders").craft(view), view.honest[[0] * 4])


def test_copying_oneself_is_refused():
    with pytest.raises(ValueError, match="honest"):
        Mimic(knowledge="own")
