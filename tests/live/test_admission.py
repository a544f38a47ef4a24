"""Admission of clients: tokens, numbers, and processes that come back."""

from types import SimpleNamespace
from typing import Any

import pytest

from asyncfl.live.live_federation import ClientRegistry, RefusedError
from asyncfl.live.vocabulary import Hello

TOKENS = {"ann": "a", "bob": "b", "2": "two", "0": "zero", "eve": "e", "7": "seven"}


def hello(name: str, *, token: str | None = None, parameters: int = 6, samples: int = 9, of: str = "one") -> Hello:
    return Hello(name, TOKENS.get(name, "?") if token is None else token, parameters, samples, instance=of)


def registry(clients: int = 3) -> ClientRegistry:
    context: Any = None
    return ClientRegistry(context, TOKENS, clients, 6, 5)


def test_a_name_that_is_a_free_number_is_the_clients_number_and_others_are_numbered_in_turn() -> None:
    clients = registry(4)
    assert [clients.admit(hello(name)).number for name in ("ann", "2", "0", "7")] == [0, 2, 1, 3]
    assert sorted(clients.by_number) == [0, 1, 2, 3]
    assert {name: client.number for name, client in clients.by_name.items()} == {"ann": 0, "2": 2, "0": 1, "7": 3}
    with pytest.raises(RefusedError, match="all 4 clients of the federation are there already"):
        clients.admit(hello("bob"))
    few = registry(2)
    assert few.admit(hello("2")).number == 0, "there is no number 2 of two clients"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (hello("ann", token="b"), "client 'ann' has no such token"),
        (hello("zoe", token=""), "client 'zoe' has no such token"),
        (hello("ann", parameters=7), "client 'ann' trains models of 7 parameters, here they have 6: both sides need"),
        (hello("ann", samples=0), "client 'ann' has no samples to train on"),
        (
            hello("ann", samples=4),
            "client 'ann' has 4 samples, and noise is calibrated to clients of at least 5; lower",
        ),
    ],
)
def test_wrong_tokens_models_and_sample_counts_are_refused(said: Hello, why: str) -> None:
    clients = registry()
    with pytest.raises(RefusedError, match=why):
        clients.admit(said)
    assert (clients.by_number, clients.by_name, clients.renewed) == ({}, {}, [])


def test_a_second_process_is_refused_while_the_first_is_connected() -> None:
    clients = registry()
    client: Any = clients.admit(hello("ann"))
    client.link, client.instance = SimpleNamespace(peer="10.0.0.1:5"), "one"
    assert clients.admit(hello("ann")) is client
    with pytest.raises(RefusedError, match=r"client 'ann' is connected already, from 10\.0"):
        clients.admit(hello("ann", of="two"))
    client.link = None
    assert clients.admit(hello("ann", of="two")) is client
