"""Exact clusters of numbers, against hand-made cases and all partitions."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.defences.clusters import has_clusters, k_means, lower_cluster


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


# --- two clusters ---

scores = st.lists(st.integers(0, 100), min_size=0, max_size=12).map(lambda values: np.array(values) / 100)


def within(values, lower):
    return sum(((part - part.mean()) ** 2).sum() for part in (values[lower], values[~lower]) if len(part))


@pytest.mark.parametrize(
    ("values", "lower"),
    [
        ([0.9, 0.1, 0.8, 0.2], [False, True, False, True]),
        ([0.1, 0.9], [True, False]),
        ([0.1, 0.1, 0.1, 0.8], [True, True, True, False]),
        ([0.5, 0.5, 0.5], [False, False, False]),
        ([0.5], [False]),
        ([], []),
        ([0.0, 1.0, 2.0], [True, False, False]),
    ],
)
def test_two_clusters_by_hand(values, lower):
    assert lower_cluster(np.array(values, dtype=float)).tolist() == lower


@given(scores)
def test_cut_into_two_is_optimal(values):
    lower = lower_cluster(values)
    distinct = np.unique(values)
    if len(distinct) < 2:
        assert not lower.any()
        return
    best = min(within(values, values <= (a + b) / 2) for a, b in pairwise(distinct))
    assert within(values, lower) == pytest.approx(best, abs=1e-12)
    assert values[lower].max() < values[~lower].min()
