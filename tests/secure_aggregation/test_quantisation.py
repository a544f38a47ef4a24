"""Quantisation is unbiased and moves no vector further than its bound; the noise has the discrete Gaussian's law."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.secure_aggregation import PRIME, Quantiser, discrete_gaussian


def test_numbers_are_rounded_to_the_grid_by_hand() -> None:
    grid = Quantiser(bits=3, range=1.5)
    assert (grid.levels, grid.step) == (3, 0.5)
    update = np.array([0.5, -1.5, 9.0, -9.0, 0.0], dtype=np.float32)
    assert grid.rounded(update, np.random.default_rng(0)).tolist() == [1, -3, 3, -3, 0]
    assert grid.clipped(update) == 2
    assert grid.rounding_distance(16) == 2.0


def test_rounding_has_the_right_mean() -> None:
    """0.3 of a step is rounded up with probability 0.3: of 40,000, within five standard deviations."""
    grid = Quantiser(bits=2, range=1.0)
    found = grid.rounded(np.full(40_000, 0.3), np.random.default_rng(1))
    assert set(found.tolist()) == {0, 1}
    assert abs(found.mean() - 0.3) < 5 * math.sqrt(0.3 * 0.7 / 40_000)


@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(1, 30))
def test_rounding_moves_two_vectors_apart_by_at_most_the_bound(seed: int, bits: int, size: int) -> None:
    random = np.random.default_rng(seed)
    grid = Quantiser(bits, 1.0)
    first, second = random.normal(size=(2, size))
    one, other = (grid.rounded(vector, np.random.default_rng(seed)) * grid.step for vector in (first, second))
    bound = grid.rounding_distance(size)
    assert np.linalg.norm(one - other) <= np.linalg.norm(first - second) + bound + 1e-9
    assert np.linalg.norm(one) <= np.linalg.norm(first) + bound + 1e-9


def test_attackers_may_send_any_element_of_the_field() -> None:
    grid = Quantiser(bits=2, range=1.0)
    sent = grid.unchecked(np.array([7.4, np.nan, np.inf, -1e30, PRIME + 3.0]))
    assert sent[:2].tolist() == [7, 0]
    assert sent[4] == 3
    assert (np.abs(sent) < PRIME).all()


@pytest.mark.parametrize("std", [0.4, 1.0, 3.7])
def test_noise_has_the_law_of_the_discrete_gaussian(std: float) -> None:
    """Shares of each number among 100,000, within five standard deviations of exp(-y^2/2s^2) / sum."""
    drawn = discrete_gaussian(std, 100_000, np.random.default_rng(2))
    support = np.arange(-40, 41)
    law = np.exp(-(support**2) / (2 * std**2))
    law /= law.sum()
    found = np.array([(drawn == number).mean() for number in support])
    assert (np.abs(found - law) <= 5 * np.sqrt(law * (1 - law) / len(drawn)) + 1e-12).all()
    assert drawn.var() <= std**2 * (1 + 5 * math.sqrt(2 / len(drawn)))
