"""Attacks disguised by length and alignment."""

import numpy as np
import pytest

from asyncfl.threats import Adaptive, Backdoor, Flooding, LyingEvaluator, Scaling, SignFlip

OTHERS = np.array([[10.0, 1, 0, 0], [10, -1, 0, 0], [10, 0, 1, 0], [10, 0, -1, 0]])
MEAN = np.array([10.0, 0, 0, 0])
LENGTH = np.sqrt(101)


def buffer_view(make_view, update):
    return make_view(honest=[update], others=OTHERS)


def test_reversed_upload_is_raised_to_the_least_alignment(make_view):
    crafted = Adaptive(attack=SignFlip(), alignment=0.4).craft(buffer_view(make_view, [10, 3, 0, 0]))
    np.testing.assert_allclose(crafted, [[4, -3, 0, 0]], rtol=1e-6)


def test_an_overlong_upload_keeps_its_alignment_and_loses_the_rest(make_view):
    crafted = Adaptive(attack=Scaling(factor=100), alignment=0.4).craft(buffer_view(make_view, [0.05, 3, 0, 4]))
    assert np.linalg.norm(crafted) == pytest.approx(LENGTH, rel=1e-5)
    along = 0.05 * 100
    across = np.sqrt(LENGTH**2 - along**2)
    np.testing.assert_allclose(crafted, [[along, 0.6 * across, 0, 0.8 * across]], rtol=1e-5)


@pytest.mark.parametrize("alignment", [0.0, 0.35, 1.0])
@pytest.mark.parametrize("length", [0.5, 1.0, 2.0])
def test_length_and_alignment_limits_hold(make_view, alignment, length):
    rng = np.random.default_rng(0)
    attack = Adaptive(attack=Scaling(factor=30), alignment=alignment, length=length)
    for _ in range(20):
        crafted = attack.craft(buffer_view(make_view, rng.normal(size=4)))[0].astype(float)
        assert np.linalg.norm(crafted) <= length * LENGTH * (1 + 1e-5)
        assert crafted @ MEAN / 100 >= min(alignment, length * LENGTH / 10) - 1e-5


def test_only_length_is_limited_without_a_mean(make_view):
    view = make_view(honest=[[3, 4, 0, 0]], others=[[1, 0, 0, 0], [-1, 0, 0, 0]])
    np.testing.assert_allclose(Adaptive(attack=Flooding()).craft(view), [[0.6, 0.8, 0, 0]], rtol=1e-6)


def test_other_behaviour_is_the_inner_attacks(make_view):
    attack = Adaptive(attack=Backdoor(target_class=4, side=2), knowledge="colluders")
    images, labels = np.ones((4, 1, 6, 6), np.float32), np.zeros(4, np.int64)
    assert attack.target == 4
    assert attack.triggered(images).shape == images.shape
    assert attack.poison(images, labels, 10, np.random.default_rng(0))[1].tolist().count(4) == 2
    assert [fault.field for fault in attack.faults(3, (1, 6, 6))] == ["attack.target_class"]
    assert attack.sees == "colluders"
    assert Adaptive(attack=Flooding(times=3)).rate == 3
    assert Adaptive(attack=LyingEvaluator()).lies
