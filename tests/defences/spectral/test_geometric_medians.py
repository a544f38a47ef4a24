"""The geometric median: known places and laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.defences.spectral.geometric_medians import geometric_medians

clouds = st.integers(0, 500).map(lambda seed: np.random.default_rng(seed).normal(size=(9, 3)))


def median(points, weights=None, **kwargs):
    points = np.array(points, dtype=float)
    weights = np.ones(len(points)) if weights is None else np.array(weights, dtype=float)
    return geometric_medians(points, weights[None], **kwargs)[0]


def test_more_than_half_of_the_weight_on_a_point_makes_it_the_median():
    assert median([(1, 0)] * 6 + [(-1, 5)] * 4) == pytest.approx([1, 0], abs=1e-6)
    assert median([(1, 0), (9, 9), (-3, 2)], [5, 1, 1]) == pytest.approx([1, 0], abs=1e-6)


def test_of_a_square_it_is_the_centre():
    assert median([(0, 0), (2, 0), (0, 2), (2, 2)]) == pytest.approx([1, 1])


def test_of_an_equilateral_triangle_it_is_fermats_point():
    points = [(0, 0), (1, 0), (0.5, np.sqrt(3) / 2)]
    assert median(points, steps=200) == pytest.approx([0.5, np.sqrt(3) / 6], abs=1e-6)


def test_points_of_no_weight_do_not_count_and_all_in_one_place_is_that_place():
    assert median([(1, 1), (1, 1), (8, 8)], [1, 1, 0]) == pytest.approx([1, 1])
    assert median([(0, 0)] * 3) == pytest.approx([0, 0])


@settings(deadline=None)
@given(clouds)
def test_no_place_nearby_is_better(points):
    found = median(points, steps=300)
    cost = np.linalg.norm(points - found, axis=1).sum()
    for step in np.concatenate([np.eye(3), -np.eye(3)]) * 0.05:
        assert cost <= np.linalg.norm(points - found - step, axis=1).sum() + 1e-6


@settings(deadline=None)
@given(clouds)
def test_it_moves_with_the_points_and_rows_of_weights_do_not_mix(points):
    weights = np.stack([np.ones(9), np.arange(9.0)])
    both = geometric_medians(points, weights)
    assert both[1] == pytest.approx(median(points, np.arange(9)))
    assert geometric_medians(points + 3, weights) == pytest.approx(both + 3, abs=1e-4)
