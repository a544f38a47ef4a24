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


def test_point_with_more_than_half_of_the_weight_is_the_median():
    assert median([(1, 0)] * 6 + [(-1, 5)] * 4) == pytest.approx([1, 0], abs=1e-6)
    assert median([(1, 0), (9, 9), (-3, 2)], [5, 1, 1]) == pytest.approx([1, 0], abs=1e-6)


def test_median_of_a_square_is_its_centre():
    assert median([(0, 0), (2, 0), (0, 2), (2, 2)]) == pytest.approx([1, 1])


def test_median_of_an_equilateral_triangle_is_fermats_point():
    points = [(0, 0), (1, 0), (0.5, np.sqrt(3) / 2)]
    assert median(points, steps=200) == pytest.approx([0.5, np.sqrt(3) / 6], abs=1e-6)


def test_points_of_zero_weight_are_ignored():
    assert median([(1, 1), (1, 1), (8, 8)], [1, 1, 0]) == pytest.approx([1, 1])
    assert median([(0, 0)] * 3) == pytest.approx([0, 0])


@settings(deadline=None)
@given(clouds)
def test_median_is_a_local_minimum(points):
    found = median(points, steps=300)
    cost = np.linalg.norm(points - found, axis=1).sum()
    for step in np.concatenate([np.eye(3), -np.eye(3)]) * 0.05:
        assert cost <= np.linalg.norm(points - found - step, axis=1).sum() + 1e-6
