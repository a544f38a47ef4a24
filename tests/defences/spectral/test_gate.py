"""Provisional verdicts and what is made good when they become final."""

import numpy as np
import pytest

from asyncfl.defences.spectral.gate import Provisional, amends, covers


def entry(client, factor, applied, *delta):
    return Provisional(client, factor, applied, np.array(delta, dtype=np.float32))


def test_the_guilty_lose_what_they_gave_and_the_innocent_get_what_was_held():
    entries = [
        entry(0, 0.5, True, 2, 0),
        entry(1, 0.25, False, 0, 4),
        entry(2, 0.5, True, 100, 100),
        entry(3, 0.5, False, 100, 100),
    ]
    guilty = np.array([True, False, False, True])
    assert amends(entries, guilty).tolist() == [-1, 1]
    assert amends(entries, guilty).dtype == np.float32


def test_where_every_verdict_stands_there_is_nothing_to_amend():
    entries = [entry(0, 0.5, True, 1, 1), entry(1, 0.5, False, 1, 1)]
    assert amends(entries, np.array([False, True])) is None
    assert amends([], np.array([False, True])) is None


@pytest.mark.parametrize(("seen", "clients", "opens"), [(4, 5, True), (3, 5, False), (80, 100, True), (79, 100, False)])
def test_the_gate_opens_at_its_share(seen, clients, opens):
    assert covers(seen, clients, 0.8) == opens


def test_a_gate_of_no_share_is_always_open():
    assert covers(0, 10, 0.0)
