"""Bank and pool: the Gram matrix is that of the rows, whatever was put in and forgotten."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.defences.distances import PRODUCT_CHUNK, inner_products
from asyncfl.defences.spectral.bank import empty_bank

CLIENTS, D = 6, 5
batches = st.lists(st.sets(st.integers(0, CLIENTS - 1), min_size=1), max_size=6)


def put(bank, clients, rows):
    return bank.add(clients, rows, np.arange(len(rows)), np.full(len(rows), np.nan), np.ones(len(rows)))


@settings(deadline=None)
@given(batches, st.integers(0, CLIENTS - 1), st.integers(0, 99))
def test_gram_matrix_is_that_of_the_rows(sequence, forgotten, seed):
    random = np.random.default_rng(seed)
    bank, expected = empty_bank(CLIENTS), np.zeros((CLIENTS, D))
    for clients in sequence:
        clients = np.array(sorted(clients))
        rows = random.normal(size=(len(clients), D)).astype(np.float32)
        bank, expected[clients] = put(bank, clients, rows), rows
    bank, expected[forgotten] = bank.forget(forgotten), 0
    np.testing.assert_allclose(bank.gram, expected @ expected.T, atol=1e-5)
    assert bank.present.tolist() == [c for c in range(CLIENTS) if expected[c].any()]
    assert bank.rows[forgotten] is None
    assert bank.noise_std.tolist() == expected.any(axis=1).tolist()


def test_products_of_long_rows_are_precise():
    random = np.random.default_rng(0)
    rows = random.normal(size=(3, 5 * PRODUCT_CHUNK + 17)).astype(np.float32)
    exact = rows.astype(np.float64) @ rows.astype(np.float64).T
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    for right in (rows, rows.copy(), list(rows)):
        assert (np.abs(inner_products(rows, right) - exact) / scale).max() < 5e-7


# --- pool ---


def pooled(pool, clients, updates, base=0):
    n = len(clients)
    along = np.arange(n) + 1.0
    return pool.add(np.array(clients), np.asarray(updates, dtype=np.float32), np.full(n, base), along, np.ones(n))


def matrix(pool):
    return np.stack([np.zeros(50) if row is None else row for row in pool.rows])


def test_pool_rows_are_means_with_fading_weights():
    sent = np.random.default_rng(0).normal(size=(5, 50)).astype(np.float32)
    pool = empty_bank(4, most=3)
    for number in range(3):
        pool = pooled(pool, [2], sent[number : number + 1], base=3 * number)
    np.testing.assert_allclose(matrix(pool)[2], sent[:3].mean(axis=0), atol=1e-6)
    assert pool.noise_std[2] ** 2 == pytest.approx(1 / 3)
    assert pool.base_versions[2] == 3
    for number in (3, 4):
        pool = pooled(pool, [2], sent[number : number + 1])
    weights = np.array([4 / 9, 4 / 9, 4 / 9, 2 / 3, 1]) / 3
    np.testing.assert_allclose(matrix(pool)[2], weights @ sent, atol=1e-6)
    assert pool.noise_std[2] ** 2 == pytest.approx((weights**2).sum())
    assert pool.counts.tolist() == [0, 0, 5, 0]


def test_inner_products_are_those_of_the_means():
    random, pool = np.random.default_rng(2), empty_bank(4, most=3)
    for clients in ([0, 1], [1, 3], [3, 0, 1], [2]):
        pool = pooled(pool, clients, random.normal(size=(len(clients), 50)))
    np.testing.assert_allclose(pool.gram, matrix(pool) @ matrix(pool).T, atol=1e-4)
