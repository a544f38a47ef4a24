"""Who is let in, under which number, and whom the words meet who is not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asyncfl.live.members import Members, RefusedError, deliver
from asyncfl.live.transport import EndedError
from asyncfl.live.vocabulary import Hello, Ping
from asyncfl.live.wire import encode

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


def test_numbers_are_those_of_the_names_where_they_are_numbers_and_free_else_as_they_come() -> None:
    house = members(4)
    assert [house.admit(hello(name), line()).member.number for name in ("ann", "2", "0", "7")] == [0, 2, 1, 3]
    assert sorted(house.by_number) == [0, 1, 2, 3]
    assert {name: member.number for name, member in house.by_name.items()} == {"ann": 0, "2": 2, "0": 1, "7": 3}
    with pytest.raises(RefusedError, match="all 4 clients of the federation are there already"):
        house.admit(hello("bob"), line())
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
def test_who_does_not_fit_is_refused_and_leaves_nothing(said: Hello, why: str) -> None:
    house = members()
    with pytest.raises(RefusedError, match=why):
        house.admit(said, line())
    assert (house.by_number, house.by_name, house.renewed) == ({}, {}, set())


def test_the_fewest_samples_are_enough_and_0_parameters_take_what_comes() -> None:
    assert members().admit(hello("ann", samples=5, parameters=0), line()).member.samples == 5
    assert Members(1, TOKENS, 6).admit(hello("ann", samples=1), line()).member.samples == 1


def test_the_same_process_takes_its_connection_over_and_another_waits_until_it_has_ended() -> None:
    house, first, second = members(), line(), line()
    admitted = house.admit(hello("ann"), first)
    assert (admitted.new, admitted.before) == (True, None)
    box = admitted.member.outbox
    again = house.admit(hello("ann", samples=8), second)
    assert again.member is admitted.member
    assert (again.new, again.before, again.member.connection, again.member.samples) == (False, first, second, 8)
    assert again.member.outbox is not box
    with pytest.raises(RefusedError, match=r"client .ann. is connected already, from 10\.0\.0\.1:5"):
        house.admit(hello("ann", of="two"), line())
    assert house.renewed == set()
    again.member.connection = None
    other = house.admit(hello("ann", of="two"), first)
    assert (other.new, other.before, other.member.number, other.member.instance) == (True, None, 0, "two")
    assert house.renewed == {0}


def test_those_who_are_ready_stand_by_their_numbers() -> None:
    house = members()
    for name in ("2", "bob", "ann"):
        house.admit(hello(name), line()).member.ready = name != "bob"
    assert [(one.number, one.name) for one in house.ready] == [(1, "ann"), (2, "2")]


def test_what_is_said_goes_out_in_its_order_until_the_connection_ends() -> None:
    async def main() -> list[bytes]:
        connection: Any = Line(frames=2)
        member = members().admit(hello("ann"), connection).member
        for number in (4, 5, 6):
            member.say(Ping(number))
        await asyncio.wait_for(deliver(member, connection), 5)
        member.connection = None
        member.say(Ping(7))
        assert member.outbox.empty(), "nobody is there to say it to"
        return list(connection.sent)

    assert asyncio.run(main()) == [encode(Ping(4)), encode(Ping(5))]
