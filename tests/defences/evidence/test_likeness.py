"""Clients that are like a quarter of all clients."""

import numpy as np
import pytest

from asyncfl.defences.client_means import ClientMeans, empty_means
from asyncfl.defences.evidence.directions import add_buffer
from asyncfl.defences.evidence.likeness import crowded_clients

D, CLIENTS = 400, 20


def means_of(rows, noise=0.01) -> ClientMeans:
    """Return the means of clients 0, 1, ... that sent `rows` once, with noise."""
    sent = (np.array(rows) + noise * np.random.default_rng(0).standard_normal((len(rows), D))).astype(np.float32)
    n = len(sent)
    none = np.zeros((n, CLIENTS))
    return add_buffer(empty_means(CLIENTS), np.arange(n), sent, none, sent @ sent.T, np.full(n, noise), 4)


def test_clients_with_the_same_signal_are_a_crowd_whatever_its_sign():
    signal = np.eye(1, D)[0]
    assert crowded_clients(means_of([signal] * 12 + [-signal] * 8), D).all()
    # Three clients are fewer than a quarter.
    assert crowded_clients(means_of([signal] * 17 + [-signal] * 3), D).tolist() == [True] * 17 + [False] * 3


def test_clients_of_one_class_each_are_no_crowd():
    kinds = np.eye(10, D)
    assert not crowded_clients(means_of([kinds[client % 10] for client in range(CLIENTS)]), D).any()


@pytest.mark.parametrize("rows", [np.zeros((CLIENTS, D)), np.eye(1, D).repeat(5, axis=0)], ids=["noise", "few"])
def test_nobody_is_in_a_crowd_while_there_is_only_noise_or_too_few_have_sent(rows):
    assert not crowded_clients(means_of(rows, noise=0.1), D).any()
