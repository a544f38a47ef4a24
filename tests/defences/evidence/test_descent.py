"""The direction in which all classes descend: golden points, and that every mixture goes along it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.defences.evidence.descent import common_descent, min_norm_point


def test_common_descent_of_two_classes_by_hand():
    direction, length = common_descent(np.array([[-2.0, 0.0], [0.0, -6.0]], dtype=np.float32))
    np.testing.assert_allclose(direction, [np.sqrt(0.5)] * 2, rtol=1e-6)
    # |r| = sqrt(1/2), the median of 2 and 6 is 4.
    assert length == pytest.approx(4 * np.sqrt(0.5))


def test_min_norm_point_satisfies_its_optimality_condition():
    points = np.array([[1.0, 0.2], [1.0, 0.0], [-0.6, 0.8]])
    weights = min_norm_point(points @ points.T)
    np.testing.assert_allclose(weights.sum(), 1)
    least = weights @ points
    assert (points @ least >= least @ least - 1e-6).all()
    assert weights[2] > 0.4


@pytest.mark.parametrize("gradients", [np.zeros((2, 3)), np.array([[1.0, 0, 0], [-1.0, 0, 0]])])
def test_opposite_descents_have_no_common_direction(gradients):
    direction, length = common_descent(gradients.astype(np.float32))
    assert length == 0
    assert not direction.any()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 10))
def test_every_mixture_of_classes_goes_along_the_common_descent(seed, classes):
    random = np.random.default_rng(seed)
    gradients = random.standard_normal((classes, 60)).astype(np.float32) * random.uniform(0.1, 9, (classes, 1))
    gradients = gradients.astype(np.float32)
    direction, length = common_descent(gradients)
    assert length > 0
    for shares in random.dirichlet(np.full(classes, 0.2), 20):
        assert -(shares @ gradients) @ direction > 0
