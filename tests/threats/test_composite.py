"""Attacks made of others: several by the same attackers, and attacks disguised by length and alignment."""

from dataclasses import replace

import numpy as np
import pytest

from asyncfl.threats import (
    Adaptive,
    Alie,
    Backdoor,
    Combined,
    EvaluatorBait,
    Flooding,
    Ipm,
    LabelFlip,
    LyingEvaluator,
    Scaling,
    SignFlip,
    Veto,
)

RNG = np.random.default_rng(0)


def test_label_flip_with_flooding_and_lying(make_view):
    attack = Combined(attacks=(LabelFlip(), Flooding(times=4), LyingEvaluator()))
    images, labels, view = np.zeros((2, 1, 2, 2), np.float32), np.array([0, 3]), make_view()
    assert attack.poison(images, labels, 10, RNG)[1].tolist() == [9, 6]
    assert attack.rate == 4
    assert attack.lies
    np.testing.assert_allclose(attack.lie(np.array([0.25]), RNG), [0.75])
    np.testing.assert_array_equal(attack.craft(view), view.honest)
    assert (attack.length_error, attack.target, attack.sees) == (0, None, "own")


def test_attacks_apply_in_order(make_view):
    view = make_view()
    crafted = Combined(attacks=(SignFlip(), Scaling(factor=3))).craft(view)
    np.testing.assert_array_equal(crafted, -3 * view.honest)
    np.testing.assert_array_equal(Combined(attacks=(SignFlip(), SignFlip())).craft(view), view.honest)


def test_colluders_see_uploads_of_the_previous_attack(make_view):
    view = make_view(honest=[[1, 1], [3, 3]], others=[[9, 5]])
    crafted = Combined(attacks=(Scaling(factor=2), Ipm(tau=1))).craft(view)
    np.testing.assert_array_equal(crafted, [[-4, -4]] * 2)
    crafted = Combined(attacks=(Scaling(factor=2), Ipm(tau=2, knowledge="buffer"))).craft(view)
    np.testing.assert_array_equal(crafted, [[-18, -10]] * 2)


def test_veto_lets_the_first_attackers_of_the_run_exaggerate(make_view):
    view = replace(make_view(honest=[[1, 2], [3, 4], [5, 6]]), ranks=(4, 0, 1))
    attack = Veto(attack=SignFlip(), factor=3)
    assert attack.sees == "colluders"
    np.testing.assert_array_equal(attack.craft(view), [[-1, -2], [9, 12], [-5, -6]])
    np.testing.assert_array_equal(Veto(attack=LabelFlip(), number=2).craft(view), [[1, 2], [6, 8], [10, 12]])


@pytest.mark.parametrize(
    ("parts", "sees"),
    [
        ((LabelFlip(), Alie()), "colluders"),
        ((Ipm(knowledge="buffer"), Alie()), "buffer"),
        ((Scaling(), EvaluatorBait()), "own"),
    ],
)
def test_knowledge_is_the_widest_of_the_parts(parts, sees):
    assert Combined(attacks=parts).sees == sees


def test_backdoor_success_is_measured():
    attack = Combined(attacks=(Backdoor(target_class=2, side=1), Flooding()))
    assert attack.target == 2
    images = np.zeros((3, 1, 4, 4), np.float32)
    np.testing.assert_array_equal(attack.triggered(images), Backdoor(side=1).triggered(images))
    with pytest.raises(ValueError, match="at most one"):
        Combined(attacks=(Backdoor(), Backdoor(target_class=1)))


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
