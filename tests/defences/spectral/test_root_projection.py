"""Who reference where the server has data of its own."""

import numpy as np
import pytest

from asyncfl.defences.spectral.root_projection import downhill, projections, uphill


def test_projections_are_lengths_along_the_way_down():
    deltas = np.array([(1, 0), (-2, 5), (0, 3)], dtype=np.float32)
    assert projections(deltas, np.array([-4, 0], dtype=np.float32)) == pytest.approx([1, -2, 0])


def test_a_gradient_of_zero_tells_nothing():
    assert projections(np.ones((2, 3), dtype=np.float32), np.zeros(3, dtype=np.float32)).tolist() == [0, 0]


def test_downhill_is_what_goes_down_at_least_half_as_far_as_the_best_fifth():
    along = np.array([1.0, 1.0, 1.0, 0.6, 0.4, -1.0, -1.0, -1.0, -1.0, -1.0])
    assert downhill(along, np.arange(10)).tolist() == [True] * 4 + [False] * 6


def test_the_newest_set_the_bar():
    along = np.concatenate([np.full(50, 9.0), np.full(40, 1.0), [0.6, 0.4]])
    arrived = np.concatenate([np.arange(50), np.arange(52, 92), [50, 51]])
    reference = downhill(along, arrived)
    assert reference[:91].all()
    assert not reference[91]


def test_where_nobody_goes_down_nobody_votes():
    assert not downhill(np.array([-1.0, -2.0, 0.0]), np.arange(3)).any()


def test_who_goes_uphill_is_left_out_and_struck_if_far():
    along = np.array([1.0, 1.0, 1.0, 0.01, -0.01, -0.4, -1.1, -2.0])
    left, struck = uphill(along, np.arange(8))
    assert left.tolist() == [False] * 4 + [True] * 4
    assert struck.tolist() == [False] * 6 + [True] * 2


def test_where_nobody_goes_down_nobody_is_judged_by_it():
    left, struck = uphill(np.array([-1.0, -2.0, 0.0]), np.arange(3))
    assert not left.any()
    assert not struck.any()


def test_bars_are_met_and_not_passed():
    along = np.array([1.0, 1.0, 1.0, 0.5, 0.499, 0.0, -0.001, -1.0, -1.001])
    newest = np.array([9, 8, 7, 6, 5, 4, 3, 2, 1])
    assert downhill(along, newest, newest=3).tolist() == [True] * 4 + [False] * 5
    left, struck = uphill(along, newest, newest=3)
    assert left.tolist() == [False] * 6 + [True] * 3
    assert struck.tolist() == [False] * 8 + [True]
    flat = np.array([0.0, 0.0, 0.0, -1.0])
    assert not downhill(flat, np.arange(4)[::-1], newest=3).any()
    assert not uphill(flat, np.arange(4)[::-1], newest=3)[0].any()
