import math

import numpy as np
import pytest
from scipy import stats

from asyncfl.learning.normal_noise import StandardLaplace, StandardNormal


def drawn(n: int, steps: int, seed: int = 0) -> np.ndarray:
    source = StandardNormal(np.random.SFC64(seed), n)
    return np.stack([source.draw().copy() for _ in range(steps)])


def test_draws_are_standard_normal() -> None:
    sample = drawn(100_001, 10).ravel().astype(float)
    n = len(sample)
    assert stats.kstest(sample, "norm").pvalue > 0.01
    moments = [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]  # power, mean, variance of the power
    for power, mean, variance in moments:
        assert abs((sample**power).mean() - mean) < 4 * math.sqrt(variance / n)
    tail = 2 * stats.norm.sf(4)
    assert abs((np.abs(sample) > 4).sum() - n * tail) < 4 * math.sqrt(n * tail)


def test_draws_are_independent_of_each_other() -> None:
    first, second = drawn(200_000, 2).astype(float)
    bound = 4 / math.sqrt(100_000)
    pairs = [(first, second), (first[:-1], first[1:]), (first[:100_000], first[100_000:])]
    for a, b in pairs:  # the sine of a pair is half a vector after its cosine
        assert abs(np.corrcoef(a, b)[0, 1]) < bound
        assert abs(np.corrcoef(a**2, b**2)[0, 1]) < bound
    assert len(np.unique(np.round(np.concatenate([first, second]), 6))) > 350_000


class Fixed:
    """A generator that always returns the same bits."""

    def __init__(self, word: int) -> None:
        self.word = word

    def random_raw(self, count: int) -> np.ndarray:
        return np.full(count, self.word, np.uint64)


def test_extreme_bits_give_finite_draws() -> None:
    smallest, largest = Fixed(0), Fixed(2**64 - 1)
    # Words of zeros give the largest radius, which is drawn again from the tail: ndtri(2^-54 ndtr(-5)) = -9.926819.
    assert np.abs(StandardNormal(smallest, 2).draw()).tolist() == pytest.approx([9.926819, 0], abs=1e-5)
    assert np.linalg.norm(StandardNormal(largest, 2).draw()) == pytest.approx(0, abs=1e-5)
    assert StandardLaplace(smallest, 2).draw().tolist() == pytest.approx([-10 - 54 * math.log(2)] * 2)
    assert StandardLaplace(largest, 2).draw().tolist() == pytest.approx([0, 0], abs=1e-6)


def test_the_tail_of_the_normal_has_the_right_size_and_shape() -> None:
    source = StandardNormal(np.random.SFC64(4), 10**6)
    tail = np.concatenate([draw[np.abs(draw) > 4.9] for draw in (source.draw() for _ in range(60))]).astype(float)
    for limit in (4.9, 5.0, 5.2, 5.5):
        expected = 60e6 * 2 * stats.norm.sf(limit)
        assert abs((np.abs(tail) > limit).sum() - expected) < 4 * math.sqrt(expected) + 1, limit
    assert stats.kstest(np.abs(tail), lambda x: 1 - stats.norm.sf(x) / stats.norm.sf(4.9)).pvalue > 0.01
    assert abs((tail > 0).mean() - 0.5) < 4 * 0.5 / math.sqrt(len(tail))
    assert len(np.unique(tail[np.abs(tail) > 5])) == (np.abs(tail) > 5).sum()


def test_laplace_draws_follow_the_laplace_distribution_also_in_the_tail() -> None:
    source = StandardLaplace(np.random.SFC64(0), 10**6)
    sample = np.concatenate([source.draw().copy() for _ in range(4)]).astype(float)
    n = len(sample)
    assert stats.kstest(sample[: 10**6], "laplace").pvalue > 0.01
    for power, mean, variance in ((1, 0, 2), (2, 2, 20), (4, 24, 40320 - 576)):
        assert abs((sample**power).mean() - mean) < 4 * math.sqrt(variance / n)
    tail = np.abs(sample[np.abs(sample) > 9])
    assert abs(len(tail) - n * math.exp(-9)) < 4 * math.sqrt(n * math.exp(-9))
    assert stats.kstest(tail - 9, "expon").pvalue > 0.01
    assert abs(np.corrcoef(sample[:-1], sample[1:])[0, 1]) < 4 / math.sqrt(n)
