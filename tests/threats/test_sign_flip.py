"""Three meanings of a flipped sign."""

import numpy as np

from asyncfl.threats import SignFlip


def test_update_is_negated(make_view):
    view = make_view()
    np.testing.assert_array_equal(SignFlip().craft(view), -view.honest)
    np.testing.assert_array_equal(SignFlip(factor=3).craft(view), -3 * view.honest)


def test_model_is_negated(make_view):
    view = make_view()
    sent = view.bases + SignFlip(of="model", factor=2).craft(view)
    np.testing.assert_allclose(sent, -2 * (view.bases + view.honest), rtol=1e-6)


def test_mean_is_negated_as_byzfl_has_it(make_view):
    crafted = SignFlip(of="mean", knowledge="colluders").craft(make_view())
    np.testing.assert_allclose(crafted, [[-1.625, -0.25, 1.5, -0.9375]] * 4, rtol=1e-7)


def test_only_the_mean_looks_at_others():
    assert SignFlip(knowledge="buffer").sees == "own"
    assert SignFlip(of="mean", knowledge="buffer").sees == "buffer"


def test_mean_of_ones_own_update_is_that_update(make_view):
    view = make_view()
    np.testing.assert_array_equal(SignFlip(of="mean").craft(view), -view.honest)
