import numpy as np
import pytest

from asyncfl.defences import Dnc
from asyncfl.testing import buffer, context, random

HONEST = np.array([[1, 0, 0], [1, 0.1, 0], [1, -0.1, 0], [1, 0, 0.1]])
ATTACK = np.array([[1, 0, 4.0]])
UPDATES = np.concatenate([HONEST, ATTACK])
EQUAL = np.full(5, 0.2)


def test_the_update_that_stands_out_along_the_top_singular_vector_is_left_out() -> None:
    rule = Dnc(byzantine=1)
    np.testing.assert_allclose(rule.aggregate(UPDATES, EQUAL), HONEST.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(rule.weigh(UPDATES, EQUAL), [0.25, 0.25, 0.25, 0.25, 0])


def test_as_many_as_a_multiple_of_f_are_left_out_and_never_all() -> None:
    assert np.count_nonzero(Dnc(byzantine=1, filtered=2).weigh(UPDATES, EQUAL)) == 3
    assert np.count_nonzero(Dnc(byzantine=1, filtered=10).weigh(UPDATES, EQUAL)) == 1
    assert Dnc(byzantine=0).weigh(UPDATES, EQUAL) == pytest.approx(EQUAL)


def test_it_agrees_with_the_singular_value_decomposition() -> None:
    updates = np.random.default_rng(2).standard_normal((12, 30))
    centred = updates - updates.mean(axis=0)
    scores = (centred @ np.linalg.svd(centred)[2][0]) ** 2
    wanted = np.ones(12, bool)
    wanted[np.argsort(scores)[-3:]] = False
    found = Dnc(byzantine=3).weigh(updates, np.full(12, 1 / 12)) > 0
    np.testing.assert_array_equal(found, wanted)


def test_drawn_coordinates_decide_and_the_mean_is_of_whole_updates() -> None:
    wide = np.zeros((9, 400))
    wide[:, :] = 0.1 * np.random.default_rng(1).standard_normal((9, 400))
    wide[7:] += 3  # both attackers stand out in any coordinates
    held = buffer(wide)
    rule, weights = Dnc(byzantine=2, coordinates=20, iterations=2, filtered=2), np.full(9, 1 / 9)
    made, following = rule.step(rule.start(context(9, 400), random()), held, weights)
    assert not made.weights[7:].any()
    np.testing.assert_allclose(made.update, made.weights @ held.deltas, atol=1e-6)
    again, _ = rule.step(following, held, weights)
    assert not np.array_equal(made.weights, again.weights)  # other coordinates, other honest updates left out
