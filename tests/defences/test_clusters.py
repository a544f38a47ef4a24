from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.defences.clusters import has_clusters, k_means


def squares(numbers, label):
    return sum(((numbers[label == k] - numbers[label == k].mean()) ** 2).sum() for k in np.unique(label))


@given(st.lists(st.integers(-30, 30), min_size=4, max_size=9), st.integers(1, 4))
def test_k_means_is_optimal_and_keeps_equal_numbers_together(numbers, clusters):
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
def test_gap_statistic_distinguishes_one_group_from_two(numbers, wanted):
    found = [has_clusters(numbers, np.random.default_rng(seed), 10) for seed in range(5)]
    assert found == [wanted] * 5
    # Neither scale nor place of the numbers matters.
    assert has_clusters(numbers * 1e12 - 7, np.random.default_rng(0), 10) is wanted
