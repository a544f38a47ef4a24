import numpy as np

from asyncfl.experiments.evidence.samples import Sample, excess, pair

INF = np.inf


def sample(values, seeds=None):
    return Sample(np.arange(len(values)) if seeds is None else np.array(seeds), np.array(values, dtype=float))


def test_seeds_are_paired_by_their_number():
    a, b = pair(sample([1, 2, 3], [1, 2, 3]), sample([20, 30, 40], [2, 3, 4]))
    assert (a.seeds.tolist(), a.values.tolist(), b.values.tolist()) == ([2, 3], [2, 3], [20, 30])
    a, b = pair(sample([1, np.nan, 3]), sample([1, 2, np.nan]))
    assert (len(a), a.values.tolist(), b.values.tolist()) == (1, [1], [1])
    assert len(pair(sample([1], [0]), sample([1], [1]))[0]) == 0


def test_differences_of_nothing_are_ties():
    one, third = np.array([1.0, 0.1 + 0.2, 5.0]), np.array([np.nextafter(1.0, 2), 0.3, 5.1])
    assert excess(one, third, 0.0).tolist()[:2] == [0, 0]
    assert excess(one, third, 0.0)[2] < 0
    assert excess(np.array([0.3]), np.array([0.2]), 0.1).tolist() == [0]


def test_two_diverged_seeds_tie():
    found = excess(np.array([INF, INF, 1.0, -INF]), np.array([INF, 1.0, INF, -INF]), 0.0)
    assert found.tolist() == [0, INF, -INF, 0]
    assert excess(np.array([INF]), np.array([INF]), -0.1).tolist() == [0.1]


def test_constant_over_seeds():
    assert sample([4.0, 4.0]).is_constant
    assert sample([INF, INF]).is_constant
    for values in ([4.0], [4.0, 4.1], [4.0, np.nan, 4.0], [INF, 4.0], [INF, -INF]):
        assert not sample(values).is_constant
