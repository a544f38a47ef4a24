"""What points say: lengths along and off the majority, laggards."""

import numpy as np
import pytest

from asyncfl.defences.spectral.alignment import alignment_with, lagging
from asyncfl.defences.spectral.spectrum import Embedding


def test_lengths_are_in_units_of_the_majority():
    points = np.array([(2.0, 0.0), (-4.0, 0.0), (1.0, 6.0)])
    alignment = alignment_with(Embedding(points, np.array([0.3, 0.4]), np.ones(2)), np.tile((2.0, 0.0), (3, 1)))
    assert alignment.along == pytest.approx([1, -2, 0.5])
    assert alignment.off == pytest.approx([0, 0, 9])
    assert alignment.doubt == pytest.approx([0.25] * 3)


def test_a_majority_is_as_clear_as_it_is_long_in_units_of_the_noise_in_its_direction():
    points = np.array([(1.0, 0.0)] * 3)
    medians = np.array([(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
    alignment = alignment_with(Embedding(points, np.array([0.2, 0.25]), np.ones(2)), medians)
    assert alignment.clearness == pytest.approx([5, 4, 0])
    assert alignment.blur[:2] == pytest.approx([0.2, 0.25])
    assert np.isfinite(alignment.along).all()


def test_without_noise_every_majority_is_clear():
    points = np.array([(1.0, 0.0)] * 2)
    alignment = alignment_with(Embedding(points, np.zeros(2), np.ones(2)), np.array([(1.0, 0.0), (0.0, 0.0)]))
    assert alignment.clearness.tolist() == [np.inf, 0]


def test_a_noisier_point_is_forgiven_more():
    points = np.array([(1.0, 0.0)] * 2)
    embedding = Embedding(points, np.array([0.2, 0.2]), np.ones(2))
    alignment = alignment_with(embedding, points, np.array([0.5, 2.0]))
    assert alignment.blur == pytest.approx([0.1, 0.4])
    assert alignment.doubt == pytest.approx(alignment.blur * np.sqrt(2))
    assert alignment.clearness == pytest.approx([5, 5])


def groups(low, high, spread=0.05, seed=0):
    random = np.random.default_rng(seed)
    return np.concatenate([0.4 + spread * random.normal(size=low), 1 + spread * random.normal(size=high)])


def test_a_separate_minority_that_hangs_back_is_found():
    assert lagging(groups(40, 60), 5.0).tolist() == [True] * 40 + [False] * 60


def test_a_majority_and_a_group_that_runs_into_the_other_are_not():
    assert not lagging(groups(60, 40), 5.0).any()
    assert not lagging(groups(40, 60, spread=0.3), 5.0).any()
    assert not lagging(groups(40, 60), None).any()


@pytest.mark.parametrize("seed", range(20))
def test_one_group_of_honest_clients_is_not_taken_for_two(seed):
    random = np.random.default_rng(seed)
    for along in (random.normal(1, 0.2, 100), random.uniform(0.5, 1.5, 100), 1 - random.exponential(0.1, 100)):
        assert not lagging(along, 5.0).any()


def test_small_shortfalls_are_forgiven_however_sharp():
    assert not lagging(np.array([0.9] * 4 + [1.0] * 6), 5.0).any()
    assert lagging(np.array([0.7] * 4 + [1.0] * 6), 5.0).sum() == 4


def test_equal_points_do_not_lag():
    assert not lagging(np.ones(10), 5.0).any()
    assert not lagging(np.ones(0), 5.0).any()


def test_two_groups_that_lie_just_so_far_apart_are_one():
    """Both have deviation 1, their means lie 10 apart."""
    along = np.array([-1.0, 1.0, 9.0, 11.0, 9.0, 11.0])
    assert not lagging(along, 10.0).any()
    assert lagging(along, 9.99).tolist() == [True, True, False, False, False, False]


def test_half_of_the_points_do_not_lag_and_a_fifth_is_no_shortfall():
    assert not lagging(np.array([0.4] * 5 + [1.0] * 5), 5.0).any()
    assert lagging(np.array([0.4] * 4 + [1.0] * 5), 5.0).tolist() == [True] * 4 + [False] * 5
    assert not lagging(np.array([0.3] * 2 + [0.5] * 4), 5.0).any()
    assert lagging(np.array([0.29] * 2 + [0.5] * 4), 5.0).sum() == 2
