"""Admission of clients: tokens, numbers, and processes that come back."""

from typing import Any

import pytest

from asyncfl.live.members import Members, RefusedError
from asyncfl.live.transport import EndedError
from asyncfl.live.vocabulary import Hello

TOKENS = {"ann": "a", "bob": "b", "2": "two", "0": "zero", "eve": "e", "7": "seven"}


class Line:
    """A connection that keeps what it is sent, and ends after so many frames."""

    peer = "10.0.0.1:5"

    def __init__(self, frames: int = 10) -> None:
        self.sent: list[bytes] = []
        self._frames = frames

    async def send(self, frame: bytes) -> None:
        if len(self.sent) == self._frames:
            raise EndedError("gone")
        self.sent.append(frame)


def hello(name: str, *, token: str | None = None, parameters: int = 6, samples: int = 9, of: str = "one") -> Hello:
    return Hello(name, TOKENS.get(name, "?") if token is None else token, parameters, samples, instance=of)


def members(clients: int = 3, *, fewest: int = 5) -> Members:
    return Members(clients, TOKENS, 6, fewest_samples=fewest)


def line() -> Any:
    return Line()


def test_a_name_that_is_a_free_number_is_the_clients_number_and_others_are_numbered_in_turn() -> None:
    members_ = members(4)
    assert [members_.admit(hello(name), line()).member.number for name in ("ann", "2", "0", "7")] == [0, 2, 1, 3]
    assert sorted(members_.by_number) == [0, 1, 2, 3]
    assert {name: member.number for name, member in members_.by_name.items()} == {"ann": 0, "2": 2, "0": 1, "7": 3}
    with pytest.raises(RefusedError, match="all 4 clients of the federation are there already"):
        members_.admit(hello("bob"), line())
    few = members(2)
    assert few.admit(hello("2"), line()).member.number == 0, "there is no number 2 of two clients"


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
    members_ = members()
    with pytest.raises(RefusedError, match=why):
        members_.admit(said, line())
    assert (members_.by_number, members_.by_name, members_.renewed) == ({}, {}, set())
