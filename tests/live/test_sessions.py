"""What a server's connections go through, on virtual time: introductions, heartbeats, returns and ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.federation.prepare import prepare
from asyncfl.federation.resolve import resolve
from asyncfl.live.members import Members
from asyncfl.live.sessions import Sessions, welcome_of
from asyncfl.live.terms import Terms
from asyncfl.live.transport import Connection, EndedError, Memory
from asyncfl.live.vocabulary import Gone, Hello, Over, Ping, Pong, Ready, Refused, Trace, Welcome
from asyncfl.live.wire import client_decoder, encode
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from tests.live import virtual_loop
from tests.live.conftest import SMALL

WELCOME = Welcome(0, "run", "", 3, 2, 5, 1, False, 1.0, -1.0, 2.0, ())
"""A heartbeat takes 2 s."""
TRACE = Trace(-1, ())


class House:
    """A house that writes down what it hears, and what it is told of."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.happened: list[str] = []
        self.stopped: str | None = None
        self.clock = SimpleNamespace(has_begun=False, now=40.0)
        self.server = SimpleNamespace(validator=SimpleNamespace(tasks_of=lambda client: (3,)))
        named = ("lost", "left", "returned")
        self.presence = SimpleNamespace(**{name: self._named(name) for name in named})
        self.members = Members(2, {"ann": "a", "bob": "b"}, 4)
        house: Any = self
        self.sessions = Sessions(house, self.members, WELCOME)
        self.memory = Memory(self.sessions.serve)
        self.takes_s = 0.0

    def _named(self, what: str) -> Callable[..., None]:
        return lambda member, *said: self.happened.append(f"{member.name} {what}")

    def tell(self, happens: Callable[[], Any]) -> None:
        happens()

    async def hear(self, member: Any, said: Any, models: Any) -> None:
        await asyncio.sleep(self.takes_s)
        self.heard.append((member.name, said, len(models)))

    async def join(self, name: str = "ann", of: str = "one", tasks: tuple[int, ...] = ()) -> tuple[Connection, Any]:
        connection = await self.memory.connect()
        await connection.send(encode(Hello(name, name[0], 4, 9, tasks, instance=of)))
        return connection, await hears(connection)


async def hears(connection: Connection) -> Any:
    return client_decoder(4).decode(await connection.receive())[0]


def held(scene: Callable[[House], Awaitable[None]]) -> House:
    async def main() -> House:
        house = House()
        await scene(house)
        await house.sessions.end()
        await house.memory.close()
        return house

    return virtual_loop.run(main)


def now() -> float:
    return asyncio.get_running_loop().time()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_welcome_says_who_the_client_is_what_time_it_is_and_what_nobody_waits_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(house: House) -> None:
        ann, first = await house.join(tasks=(2, 3, 4))
        assert first == Welcome(0, "run", "", 3, 2, 5, 1, False, 1.0, -1.0, 2.0, (2, 4))
        house.clock.has_begun = True
        bob, second = await house.join("bob")
        assert (second.client, second.now_s, second.gone) == (1, 40.0, ())
        await ann.close()
        await bob.close()

    with caplog.at_level(logging.INFO, "asyncfl.live"):
        house = held(scene)
    assert said(caplog) == ["client ann is number 0, with 9 samples", "client bob is number 1, with 9 samples"]
    assert sorted(house.happened) == ["ann lost", "bob lost"]
    assert all(member.connection is None and not member.online for member in house.members.by_number.values())


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (encode(Ready(True, None)), "a connection begins with Hello, got Ready"),
        (encode(Hello("ann", "a", 4, 9), np.zeros((1, 4), np.float32)), "Hello comes without models, got 1"),
        (encode(Hello("ann", "b", 4, 9)), "client 'ann' has no such token"),
        (b"nothing", "a frame has at least 16 bytes, got 7"),
    ],
)
def test_who_introduces_itself_wrongly_is_refused(frame: bytes, why: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(house: House) -> None:
        connection = await house.memory.connect()
        await connection.send(frame)
        assert await hears(connection) == Refused(why)
        with pytest.raises(EndedError):
            await connection.receive()

    house = held(scene)
    assert said(caplog) == [f"memory: {why}"]
    assert (house.happened, house.heard) == ([], [])


def test_a_connection_has_ten_seconds_to_say_who_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(house: House) -> None:
        connection = await house.memory.connect()
        with pytest.raises(EndedError):
            await connection.receive()
        assert now() == 10.0

    held(scene)
    assert said(caplog) == ["memory: said nothing for 10 s"]


def test_of_too_many_that_say_nothing_the_oldest_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """64 may wait besides one of each of the two clients."""

    async def scene(house: House) -> None:
        waiting = [await house.memory.connect() for _ in range(66)]
        await asyncio.sleep(1.0)
        assert said(caplog) == []
        ann, _ = await house.join()
        assert said(caplog) == ["memory: has not said who it is, and many others wait: dropped"]
        with pytest.raises(EndedError):
            await waiting[0].receive()
        assert now() == 1.0
        another = await house.memory.connect()
        await asyncio.sleep(1.0)
        assert len(said(caplog)) == 1, "who said it waits no more"
        for one in (*waiting, another, ann):
            await one.close()

    held(scene)


def test_who_gives_no_sign_of_life_for_three_heartbeats_is_taken_for_lost(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(house: House) -> None:
        ann, _ = await house.join()
        for number in range(3):
            assert await hears(ann) == Ping(number)
            assert now() == 2.0 * (number + 1)
        await ann.send(encode(Pong(0)))
        for number in (3, 4, 5):
            assert await hears(ann) == Ping(number)
        with pytest.raises(EndedError):
            await ann.receive()
        assert now() == 14.0, "heard at 6 s; at 12 s three heartbeats had passed, at 14 s more than three"

    house = held(scene)
    assert said(caplog) == ["client ann: no sign of life"]
    assert (house.happened, house.heard) == (["ann lost"], [])


def test_while_the_server_works_on_what_a_client_said_the_client_is_not_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(house: House) -> None:
        house.takes_s = 30.0
        ann, _ = await house.join()
        await ann.send(encode(TRACE))
        for number in range(15):
            assert await hears(ann) == Ping(number)
        await asyncio.sleep(2.5)
        assert house.heard == [("ann", TRACE, 0)]
        await ann.close()

    assert held(scene).happened == ["ann lost"]
    assert said(caplog) == []


def test_pings_do_not_pile_up_where_the_client_reads_none() -> None:
    async def scene(house: House) -> None:
        ann, _ = await house.join()
        member = house.members.by_name["ann"]
        for _ in range(100):
            await ann.send(encode(TRACE))
            await asyncio.sleep(1.0)
        assert member.outbox.qsize() <= 1
        await ann.close()

    assert len(held(scene).heard) == 100


def test_a_machine_that_stood_still_blames_nobody_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(house: House) -> None:
        both = [(await house.join(name))[0] for name in ("ann", "bob")]
        await asyncio.sleep(1.0)
        asyncio.get_running_loop().now_s = 101.0  # type: ignore[attr-defined]
        await asyncio.sleep(0.5)
        assert said(caplog) == ["the clock of this machine jumped by 101 s, or it stood still for so long"]
        assert len(house.members.by_number) == 2
        assert all(member.connection is not None for member in house.members.by_number.values())
        for one in both:
            await one.close()

    held(scene)


def test_what_every_client_is_told_is_the_runs() -> None:
    privacy = {"kind": "nbafl", "epsilon": 50, "clip_norm": 1.0, "exposures": 2}
    scenario = Scenario.read({**SMALL, "privacy": privacy})
    federation = prepare(resolve(scenario, 3, SimulatedRuns()))
    welcomes = [
        welcome_of(federation, Members(6, {}, 4), Terms(shape=True, speedup=8.0, heartbeat_s=2.5)) for _ in range(2)
    ]
    runs = [one.run for one in welcomes]
    assert [len(bytes.fromhex(run)) for run in runs] == [8, 8]
    assert runs[0] != runs[1]
    assert welcomes[0] == Welcome(0, runs[0], scenario.to_yaml(), 3, 6, 20, 2, True, 8.0, -1.0, 2.5, ())


def test_the_same_process_that_is_back_ends_what_it_had_and_another_takes_no_place() -> None:
    async def scene(house: House) -> None:
        first, _ = await house.join()
        member = house.members.by_name["ann"]
        second, welcome = await house.join()
        assert (welcome.client, member.online, house.happened) == (0, False, []), "it had not prepared itself"
        with pytest.raises(EndedError):
            await hears(first)
        member.ready = True
        third, _ = await house.join()
        assert (member.online, house.happened) == (True, ["ann returned"])
        _, refused = await house.join(of="two")
        assert refused == Refused("client 'ann' is connected already, from memory")
        await third.close()
        await asyncio.sleep(0.1)
        assert house.happened == ["ann returned", "ann lost"]
        fourth, _ = await house.join(of="two")
        assert house.happened[2:] == ["ann left"]
        assert (member.ready, member.online, house.members.renewed) == (False, False, {0})
        await second.close()
        await fourth.close()

    held(scene)


def test_when_it_is_over_who_comes_is_told() -> None:
    async def scene(house: House) -> None:
        house.stopped = "x" * 2000
        connection, welcome = await house.join()
        assert welcome == Over("x" * 1000), "its welcome was never sent"
        with pytest.raises(EndedError):
            await connection.receive()

    assert held(scene).happened == ["ann lost"]


def test_what_cannot_be_true_ends_a_connection_with_the_reason() -> None:
    async def scene(house: House) -> None:
        ann, _ = await house.join()
        await ann.send(encode(Gone(0, "lost_up", ())) + b"more")
        refused = await hears(ann)
        assert refused.reason.startswith("a frame with these lengths has")

    assert held(scene).happened == ["ann lost"]


def test_connections_that_do_not_end_are_ended_after_ten_seconds() -> None:
    async def scene(house: House) -> None:
        house.takes_s = 1e9
        ann, _ = await house.join()
        await ann.send(encode(TRACE))
        await asyncio.sleep(1.0)
        await house.sessions.end()
        assert now() == 11.0
        for _ in range(5):  # the pings of 10 s
            await hears(ann)
        with pytest.raises(EndedError):
            await ann.receive()

    assert held(scene).happened == ["ann lost"]
