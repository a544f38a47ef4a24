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


def test_negated_mean_agrees_with_byzfl(make_view):
    crafted = SignFlip(of="mean", knowledge="colluders").craft(make_view())
    np.testing.assert_allclose(crafted, [[-1.625, -0.25, 1.5, -0.9375]] * 4, rtol=1e-7)
