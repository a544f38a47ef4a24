"""Means of several updates of each client."""

import numpy as np
import pytest

from asyncfl.defences.spectral.pool import empty_pool

D, CLIENTS, MOST = 50, 4, 3


def put(pool, clients, updates, base=0):
    n = len(clients)
    along = np.arange(n) + 1.0
    return pool.add(np.array(clients), np.asarray(updates, dtype=np.float32), np.full(n, base), along, np.ones(n), MOST)


def rows(pool):
    return np.stack([np.zeros(D) if row is None else row for row in pool.bank.rows])


def test_pool_rows_are_means_with_fading_weights():
    sent = np.random.default_rng(0).normal(size=(5, D)).astype(np.float32)
    pool = empty_pool(CLIENTS)
    for number in range(3):
        pool = put(pool, [2], sent[number : number + 1], base=3 * number)
    np.testing.assert_allclose(rows(pool)[2], sent[:3].mean(axis=0), atol=1e-6)
    assert pool.bank.noise_std[2] ** 2 == pytest.approx(1 / 3)
    assert pool.bank.base_versions[2] == 3
    for number in (3, 4):
        pool = put(pool, [2], sent[number : number + 1])
    weights = np.array([4 / 9, 4 / 9, 4 / 9, 2 / 3, 1]) / 3
    np.testing.assert_allclose(rows(pool)[2], weights @ sent, atol=1e-6)
    assert pool.bank.noise_std[2] ** 2 == pytest.approx((weights**2).sum())
    assert pool.counts.tolist() == [0, 0, 5, 0]


def test_inner_products_are_those_of_the_means():
    random, pool = np.random.default_rng(2), empty_pool(CLIENTS)
    for clients in ([0, 1], [1, 3], [3, 0, 1], [2]):
        pool = put(pool, clients, random.normal(size=(len(clients), D)))
    np.testing.assert_allclose(pool.bank.gram, rows(pool) @ rows(pool).T, atol=1e-4)


def test_forgotten_client_starts_again():
    pool = put(empty_pool(CLIENTS), [0, 1], np.ones((2, D)), base=4).forget(1)
    assert pool.bank.present.tolist() == [0]
    pool = put(pool, [1], 3 * np.ones((1, D)), base=6)
    assert rows(pool)[1].tolist() == [3] * D
    assert (pool.counts[1], pool.bank.noise_std[1], pool.bank.base_versions[1]) == (1, 1, 6)
