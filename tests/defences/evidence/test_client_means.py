"""Means of clients' last updates: their products are those of the rows, for any order of arrival."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.defences.evidence.client_means import add_buffer, empty_means

D, CLIENTS = 30, 5


def put(means, clients, updates, most=3):
    return add_buffer(
        means,
        np.array(clients),
        updates,
        means.products(updates),
        updates @ updates.T,
        np.full(len(clients), 0.5),
        most,
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, CLIENTS - 1), min_size=1, max_size=6), min_size=1, max_size=5))
def test_products_are_those_of_the_means(buffers):
    random, means = np.random.default_rng(0), empty_means(CLIENTS)
    sent = {client: [] for client in range(CLIENTS)}
    for clients in buffers:
        updates = random.standard_normal((len(clients), D)).astype(np.float32)
        before = means.gram.copy()
        after = put(means, clients, updates)
        assert np.array_equal(means.gram, before)
        means = after
        for client, update in zip(clients, updates, strict=True):
            sent[client].append(update)
    rows = np.stack([np.zeros(D) if row is None else row for row in means.rows])
    np.testing.assert_allclose(means.gram, rows @ rows.T, atol=1e-4)
    for client, updates in sent.items():
        if 0 < len(updates) <= 3:
            np.testing.assert_allclose(rows[client], np.mean(updates, axis=0), atol=1e-5)
            np.testing.assert_allclose(means.noise_std[client], 0.5 / np.sqrt(len(updates)))
        assert means.counts[client] == len(updates)


def test_forgotten_client_leaves_no_data():
    means = put(empty_means(CLIENTS), [0, 1], np.ones((2, D), dtype=np.float32)).forget(1)
    assert means.present.tolist() == [0]
    assert not means.gram[1].any()
    assert means.rows[1] is None
