"""Who reference where the server has data of its own."""

import numpy as np
import pytest

from asyncfl.defences.spectral.root_projection import downhill, projections, uphill


def test_projections_by_hand():
    deltas = np.array([(1, 0), (-2, 5), (0, 3)], dtype=np.float32)
    assert projections(deltas, np.array([-4, 0], dtype=np.float32)) == pytest.approx([1, -2, 0])


def test_downhill_is_half_of_the_upper_quantile():
    along = np.array([1.0, 1.0, 1.0, 0.6, 0.4, -1.0, -1.0, -1.0, -1.0, -1.0])
    assert downhill(along, np.arange(10)).tolist() == [True] * 4 + [False] * 6


def test_newest_updates_set_the_bar():
    along = np.concatenate([np.full(50, 9.0), np.full(40, 1.0), [0.6, 0.4]])
    arrived = np.concatenate([np.arange(50), np.arange(52, 92), [50, 51]])
    reference = downhill(along, arrived)
    assert reference[:91].all()
    assert not reference[91]


def test_uphill_updates_are_left_out_and_struck_if_far():
    along = np.array([1.0, 1.0, 1.0, 0.01, -0.01, -0.4, -1.1, -2.0])
    left, struck = uphill(along, np.arange(8))
    assert left.tolist() == [False] * 4 + [True] * 4
    assert struck.tolist() == [False] * 6 + [True] * 2
