from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from asyncfl.learning import noise
from asyncfl.learning.noise import StepNoise


def drawn(n: int, steps: int, seed: int = 0) -> np.ndarray:
    source = StepNoise(np.random.default_rng(seed), n)
    return np.stack([source.draw().copy() for _ in range(steps)])


@pytest.mark.parametrize("n", [1, 2, 3, 8, 2**17 - 1, 2**17, 2**17 + 1, 300_001])
def test_every_length_is_filled(n: int) -> None:
    first, second = drawn(n, 2)
    assert first.dtype == np.float32
    assert first.shape == (n,)
    assert np.isfinite(first).all()
    assert not np.isin(second, first).all()


def test_equal_generators_give_equal_bytes_and_others_do_not() -> None:
    assert drawn(1001, 3).tobytes() == drawn(1001, 3).tobytes()
    assert not np.array_equal(drawn(1001, 3), drawn(1001, 3, seed=1))
    generator = np.random.default_rng(0)
    assert not np.array_equal(StepNoise(generator, 9).draw(), StepNoise(generator, 9).draw())  # it has moved


def test_draws_are_standard_normal() -> None:
    sample = drawn(100_001, 10).ravel().astype(float)
    n = len(sample)
    assert stats.kstest(sample, "norm").pvalue > 0.01
    moments = [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]  # power, mean, variance of the power
    for power, mean, variance in moments:
        assert abs((sample**power).mean() - mean) < 4 * math.sqrt(variance / n)
    tail = 2 * stats.norm.sf(4)
    assert abs((np.abs(sample) > 4).sum() - n * tail) < 4 * math.sqrt(n * tail)


def test_steps_halves_and_neighbours_are_independent() -> None:
    first, second = drawn(200_000, 2).astype(float)
    bound = 4 / math.sqrt(100_000)
    pairs = [(first, second), (first[:-1], first[1:]), (first[:100_000], first[100_000:])]
    for a, b in pairs:  # a sine stands half a vector behind its cosine: they share a radius, yet are independent
        assert abs(np.corrcoef(a, b)[0, 1]) < bound
        assert abs(np.corrcoef(a**2, b**2)[0, 1]) < bound
    assert len(np.unique(np.round(np.concatenate([first, second]), 6))) > 350_000


def test_radius_stays_finite_at_the_ends_of_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed:
        def __init__(self, word: int) -> None:
            self.word = word

        def random_raw(self, count: int) -> np.ndarray:
            return np.full(count, self.word, np.uint64)

    for word, radius in ((0, math.sqrt(64 * math.log(2))), (2**64 - 1, 0.0)):
        source = StepNoise(np.random.default_rng(0), 2)
        monkeypatch.setattr(source, "_bits", Fixed(word))
        assert float(np.linalg.norm(source.draw())) == pytest.approx(radius, abs=1e-5)


def test_blocks_are_made_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "PAIRS", 8)
    sample = drawn(1003, 200).astype(float)
    assert stats.kstest(sample.ravel(), "norm").pvalue > 0.01
    assert abs(np.corrcoef(sample, rowvar=False)[np.triu_indices(1003, 1)]).mean() < 1.1 * math.sqrt(2 / math.pi / 200)
