"""The bank: rows are means with fading weights, and the Gram matrix is theirs, whatever was added and forgotten."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.defences.distances import PRODUCT_CHUNK, inner_products
from asyncfl.defences.spectral.bank import empty_bank

CLIENTS, D = 6, 50
batches = st.lists(st.sets(st.integers(0, CLIENTS - 1), min_size=1), max_size=6)


def put(bank, clients, updates, base=0):
    n = len(clients)
    return bank.add(np.array(clients), updates, np.full(n, base), np.arange(n) + 1.0, np.ones(n))


def matrix(bank):
    return np.stack([np.zeros(D) if row is None else row for row in bank.rows])


@pytest.mark.parametrize("most", [1, 3])
@settings(deadline=None)
@given(batches, st.integers(0, CLIENTS - 1), st.integers(0, 99))
def test_gram_matrix_is_that_of_the_rows(most, sequence, forgotten, seed):
    random, bank = np.random.default_rng(seed), empty_bank(CLIENTS, most)
    for clients in sequence:
        rows = random.normal(size=(len(clients), D)).astype(np.float32)
        bank = put(bank, sorted(clients), rows)
    bank = bank.forget(forgotten)
    np.testing.assert_allclose(bank.gram, matrix(bank) @ matrix(bank).T, atol=1e-4)
    assert bank.present.tolist() == sorted(set().union(*sequence) - {forgotten})
    assert bank.rows[forgotten] is None
    assert np.flatnonzero(bank.noise_std).tolist() == bank.present.tolist()


def test_products_of_long_rows_are_precise():
    random = np.random.default_rng(0)
    rows = random.normal(size=(3, 5 * PRODUCT_CHUNK + 17)).astype(np.float32)
    exact = rows.astype(np.float64) @ rows.astype(np.float64).T
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    for right in (rows, rows.copy(), list(rows)):
        assert (np.abs(inner_products(rows, right) - exact) / scale).max() < 5e-7


def test_rows_are_means_with_fading_weights():
    sent = np.random.default_rng(0).normal(size=(5, D)).astype(np.float32)
    last, bank = empty_bank(4), empty_bank(4, most=3)
    for number in range(3):
        last, bank = (put(one, [2], sent[number : number + 1], base=3 * number) for one in (last, bank))
    np.testing.assert_allclose(matrix(bank)[2], sent[:3].mean(axis=0), atol=1e-6)
    assert (matrix(last)[2] == sent[2]).all()
    assert [one.noise_std[2] ** 2 for one in (last, bank)] == pytest.approx([1, 1 / 3])
    assert [one.base_versions[2] for one in (last, bank)] == [6, 3]
    for number in (3, 4):
        bank = put(bank, [2], sent[number : number + 1])
    weights = np.array([4 / 9, 4 / 9, 4 / 9, 2 / 3, 1]) / 3
    np.testing.assert_allclose(matrix(bank)[2], weights @ sent, atol=1e-6)
    assert bank.noise_std[2] ** 2 == pytest.approx((weights**2).sum())
    assert bank.counts.tolist() == [0, 0, 5, 0]
