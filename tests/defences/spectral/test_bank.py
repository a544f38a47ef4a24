"""The bank: its Gram matrix is that of its rows, whatever was put in and forgotten."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.defences.spectral.bank import CHUNK, empty_bank, inner_products, squared_norms

CLIENTS, D = 6, 5
batches = st.lists(st.sets(st.integers(0, CLIENTS - 1), min_size=1), max_size=6)


def put(bank, clients, rows):
    products = bank.products(rows)
    products[:, clients] = inner_products(rows, rows)
    nothing = np.full(len(rows), np.nan)
    return bank.put(clients, rows, products, np.arange(len(rows)), nothing, np.ones(len(rows)))


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
    rows = random.normal(size=(3, 5 * CHUNK + 17)).astype(np.float32)
    exact = rows.astype(np.float64) @ rows.astype(np.float64).T
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    for right in (rows, rows.copy(), list(rows)):
        assert (np.abs(inner_products(rows, right) - exact) / scale).max() < 5e-7
    assert squared_norms(rows) == pytest.approx(np.diag(exact), rel=1e-12)
