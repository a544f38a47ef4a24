"""Clients that are like many others, and clients that are unlike most."""

import numpy as np
import pytest

from asyncfl.defences.client_means import ClientMeans, add_buffer, empty_means
from asyncfl.defences.evidence.likeness import Likeness, compare_clients

D, CLIENTS = 400, 20


def means_of(rows, noise=0.01) -> ClientMeans:
    """Return the means of clients 0, 1, ... that sent `rows` once, with noise."""
    sent = (np.array(rows) + noise * np.random.default_rng(0).standard_normal((len(rows), D))).astype(np.float32)
    n = len(sent)
    none = np.zeros((n, CLIENTS))
    return add_buffer(empty_means(CLIENTS), np.arange(n), sent, none, sent @ sent.T, np.full(n, noise), 4)


def compared(rows, noise=0.01) -> Likeness:
    return compare_clients(means_of(rows, noise), D)


def test_clients_with_the_same_signal_are_a_crowd_whatever_its_sign():
    signal = np.eye(1, D)[0]
    assert compared([signal] * 12 + [-signal] * 8).crowded.all()
    # Three clients are fewer than a quarter.
    assert compared([signal] * 17 + [-signal] * 3).crowded.tolist() == [True] * 17 + [False] * 3


def test_a_minority_apart_from_clients_that_are_alike_strays():
    """They go as far along the common step as the others, and add a step of their own."""
    along, beside = np.eye(2, D)
    rows = [along] * 11 + [along + 0.9 * beside] * 9
    assert compared(rows).stray.tolist() == [False] * 11 + [True] * 9
    assert not compared(rows[:10] + rows[11:]).stray.any()  # ten are not more than half of all
    assert not compared([along] * 20).stray.any()


@pytest.mark.parametrize("kinds", [2, 3, 4, 10])
def test_clients_of_several_kinds_do_not_stray(kinds):
    rows = np.eye(1, D) + np.eye(11, D)[1:]
    assert not compared([rows[client % kinds] for client in range(CLIENTS)]).stray.any()


def test_clients_that_differ_by_degrees_do_not_stray():
    along, beside = np.eye(2, D)
    assert not compared([along + share * beside for share in np.linspace(-0.8, 0.8, CLIENTS)]).stray.any()


def test_clients_of_one_class_each_are_no_crowd():
    kinds = np.eye(10, D)
    assert not compared([kinds[client % 10] for client in range(CLIENTS)]).crowded.any()


@pytest.mark.parametrize("rows", [np.zeros((CLIENTS, D)), np.eye(1, D).repeat(5, axis=0)], ids=["noise", "few"])
def test_nobody_is_in_a_crowd_while_there_is_only_noise_or_too_few_have_sent(rows):
    assert not any(found.any() for found in compared(rows, noise=0.1))
