"""Free riders and evaluator bait: uploads of the global model."""

import numpy as np
import pytest

from asyncfl.threats import EvaluatorBait, FreeRider


def test_free_rider_returns_the_model_it_was_sent(make_view):
    view = make_view()
    assert not FreeRider().craft(view).any()


def test_free_rider_returns_the_newest_model(make_view):
    view = make_view()
    np.testing.assert_array_equal(view.bases + FreeRider(model="newest").craft(view), [view.current] * 4)


def test_disguising_noise_is_independent(make_view):
    crafted = FreeRider(std=0.5).craft(make_view(honest=np.ones((2, 20_000))))
    assert crafted.std(axis=1) == pytest.approx([0.5] * 2, rel=0.03)
    assert not np.array_equal(*crafted)


@pytest.mark.parametrize("factor", [1, 10])
def test_bait_is_parallel_to_the_global_model(make_view, factor):
    view = make_view(bases=np.random.default_rng(0).normal(size=(4, 4)))
    sent = view.bases + EvaluatorBait(factor=factor).craft(view)
    np.testing.assert_allclose(sent, factor * view.bases, rtol=1e-5, atol=1e-6)
    newest = view.bases + EvaluatorBait(factor=factor, model="newest").craft(view)
    np.testing.assert_allclose(newest, [factor * view.current] * 4, rtol=1e-5, atol=1e-6)
