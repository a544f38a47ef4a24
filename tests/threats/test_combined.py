"""Several attacks by the same attackers."""

import numpy as np
import pytest

from asyncfl.threats import (
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
