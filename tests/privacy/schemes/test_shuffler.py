"""The trusted shuffler: permutation of layers, preserved sums, and the probability of staying."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.learning import Mlp
from asyncfl.privacy.schemes.adaptive_budgets import Shuffler, swapped_order

LAYOUT = Mlp(hidden=(3,)).layout((1, 2, 2), 2)


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, LAYOUT.n_parameters)).astype(np.float32)


@pytest.mark.parametrize(("swaps", "probability"), [(1, 0.6), (2, 0.4), (5, 0.225), (10, 0.200781)])
def test_probability_that_a_layer_stays_with_its_client(swaps: int, probability: float) -> None:
    # A swap moves the layer in one of m = 5 places with probability 2/m, to any other place alike.
    assert probability == pytest.approx(1 / 5 + 4 / 5 * (1 - 2 / 4) ** swaps, abs=5e-7)
    random = np.random.default_rng(swaps)
    draws = 20_000
    own = np.mean([swapped_order(5, swaps, random)[2] == 2 for _ in range(draws)])
    assert own == pytest.approx(probability, abs=4 * (probability * (1 - probability) / draws) ** 0.5)


@given(st.integers(1, 7), st.integers(0, 30), st.integers(0, 100))
def test_shuffling_permutes_whole_layers_and_keeps_sums(count: int, swaps: int, seed: int) -> None:
    before = rows(count, seed)
    after = before.copy()
    Shuffler(swaps=swaps).shuffle(after, LAYOUT, np.ones(count, bool), np.random.default_rng(seed))
    for layer in LAYOUT.layers:
        old, new = before[:, layer.slice], after[:, layer.slice]
        assert sorted(map(bytes, old)) == sorted(map(bytes, new)), "whole layers, weight and bias together"
    np.testing.assert_allclose(after.sum(axis=0), before.sum(axis=0), rtol=1e-4, atol=1e-5)


def test_malformed_uploads_are_not_shuffled() -> None:
    models = rows(5)
    models[1, 0] = np.nan
    before = models.copy()
    sound = np.array([True, True, True, False, True])
    Shuffler(swaps=50).shuffle(models, LAYOUT, sound, np.random.default_rng(0))
    np.testing.assert_array_equal(models[[1, 3]], before[[1, 3]])
    assert (models[[0, 2, 4]] != before[[0, 2, 4]]).any()
    np.testing.assert_allclose(models[[0, 2, 4]].sum(axis=0), before[[0, 2, 4]].sum(axis=0), atol=1e-5)
