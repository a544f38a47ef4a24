"""Exact 2-means in one dimension, against hand-made cases, all partitions, and scikit-learn."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.defences.two_means import lower_cluster

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
def test_by_hand(values, lower):
    assert lower_cluster(np.array(values, dtype=float)).tolist() == lower


@given(scores)
def test_cut_is_optimal(values):
    lower = lower_cluster(values)
    distinct = np.unique(values)
    if len(distinct) < 2:
        assert not lower.any()
        return
    best = min(within(values, values <= (a + b) / 2) for a, b in pairwise(distinct))
    assert within(values, lower) == pytest.approx(best, abs=1e-12)
    assert values[lower].max() < values[~lower].min()


def test_common_offset_does_not_matter():
    values = np.array([0.1, 0.12, 0.5, 0.52])
    assert (lower_cluster(values + 1e6) == lower_cluster(values)).all()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000))
def test_is_never_worse_than_scikit_learn(seed):
    from sklearn.cluster import KMeans

    values = np.random.default_rng(seed).random(13)
    theirs = KMeans(2, n_init=3, random_state=0).fit(values[:, None])
    assert within(values, lower_cluster(values)) <= theirs.inertia_ + 1e-12
