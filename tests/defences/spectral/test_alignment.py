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


def test_clearness_is_length_over_noise():
    points = np.array([(1.0, 0.0)] * 3)
    medians = np.array([(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
    alignment = alignment_with(Embedding(points, np.array([0.2, 0.25]), np.ones(2)), medians)
    assert alignment.clearness == pytest.approx([5, 4, 0])
    assert alignment.blur[:2] == pytest.approx([0.2, 0.25])
    assert np.isfinite(alignment.along).all()


def groups(low, high, spread=0.05, seed=0):
    random = np.random.default_rng(seed)
    return np.concatenate([0.4 + spread * random.normal(size=low), 1 + spread * random.normal(size=high)])


def test_separate_lagging_minority_is_found():
    assert lagging(groups(40, 60), 5.0).tolist() == [True] * 40 + [False] * 60


def test_lagging_majority_and_overlapping_group_are_not_flagged():
    assert not lagging(groups(60, 40), 5.0).any()
    assert not lagging(groups(40, 60, spread=0.3), 5.0).any()
    assert not lagging(groups(40, 60), None).any()


@pytest.mark.parametrize("seed", range(20))
def test_single_honest_group_is_not_split(seed):
    random = np.random.default_rng(seed)
    for along in (random.normal(1, 0.2, 100), random.uniform(0.5, 1.5, 100), 1 - random.exponential(0.1, 100)):
        assert not lagging(along, 5.0).any()
