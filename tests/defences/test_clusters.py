from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.defences.clusters import has_clusters, k_means


def squares(numbers, label):
    return sum(((numbers[label == k] - numbers[label == k].mean()) ** 2).sum() for k in np.unique(label))


@given(st.lists(st.integers(-30, 30), min_size=4, max_size=9), st.integers(1, 4))
def test_no_other_cuts_are_better_and_equal_numbers_stay_together(numbers, clusters):
    numbers = np.array(numbers, dtype=float)
    label = k_means(numbers, clusters)
    different = np.unique(numbers)
    assert len(np.unique(label)) == min(clusters, len(different))
    assert all(len(set(label[numbers == value])) == 1 for value in different)
    ordered = label[np.argsort(numbers, kind="stable")]
    assert (np.diff(ordered) >= 0).all()
    cuts = combinations(different[1:], min(clusters, len(different)) - 1)
    best = min(squares(numbers, np.searchsorted(np.array(cut), numbers, side="right")) for cut in cuts)
    assert squares(numbers, label) == pytest.approx(best, abs=1e-9)


def test_clusters_far_from_zero_are_told_apart_too():
    near = np.array([0.0, 0.1, 5.0, 5.1, 0.2])
    assert k_means(1e8 + near, 2).tolist() == k_means(near, 2).tolist() == [0, 0, 1, 1, 0]


def test_three_clusters_by_hand():
    assert k_means(np.array([9.0, 1, 2, 30, 1, 31, 10]), 3).tolist() == [1, 0, 0, 2, 0, 2, 1]
    assert k_means(np.array([5.0, 5, 5]), 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        (np.linspace(0, 1, 30), False),
        (np.concatenate([np.linspace(0, 0.1, 18), np.linspace(0.9, 1, 12)]), True),
        (np.repeat([1.0, 2.0], 10), True),
        (np.ones(10), False),
        (np.array([1.0, 2.0]), False),
    ],
)
def test_the_gap_statistic_tells_two_groups_from_one(numbers, wanted):
    found = [has_clusters(numbers, np.random.default_rng(seed), 10) for seed in range(5)]
    assert found == [wanted] * 5
    # Neither scale nor place of the numbers matters.
    assert has_clusters(numbers * 1e12 - 7, np.random.default_rng(0), 10) is wanted


def test_one_cluster_is_enough_where_the_gap_is_as_large():
    numbers = np.array([0.0, 0.1, 0.2, 0.7, 1.0])
    same = SimpleNamespace(random=lambda n: numbers)  # numbers as those that they are compared with
    assert not has_clusters(numbers, same, 2)
