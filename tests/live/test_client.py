"""A client by itself, and servers that are none."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.federation.phases import LinkMessage, Phase, ScoringPhase
from asyncfl.live.client import LiveClient
from asyncfl.live.errands import Craft
from asyncfl.live.transport import Connection, EndedError, Memory
from asyncfl.live.vocabulary import (
    Begin,
    Hello,
    Judge,
    Leaving,
    Noted,
    Over,
    Ping,
    Pong,
    Ready,
    Task,
    TaskGone,
    Trace,
    Welcome,
)
from asyncfl.live.wire import client_decoder, encode, server_decoder
from asyncfl.trace import Kind
from asyncfl.world import Transfer
from tests.live import virtual_loop


@pytest.mark.parametrize("said", [Task(0, 0, 0), Judge(0, 0)], ids=lambda one: type(one).__name__)
def test_work_of_a_server_that_has_not_let_it_in_is_no_work(said: Task | Judge) -> None:
    def prepare(welcome: Welcome) -> Craft:
        raise AssertionError("nobody was welcome")

    async def main() -> str:
        async def serve(connection: Connection) -> None:
            await connection.receive()
            await connection.send(encode(said, np.zeros((1, 3), np.float32)))

        memory = Memory(serve)
        client = LiveClient("ann", "t", memory.connect, prepare, samples=1, n_parameters=3)
        why = await asyncio.wait_for(client.run(), 60)
        await memory.close()
        return why

    told = virtual_loop.run(main)
    assert told == "the server cannot be understood: it gives work to a client that it has not let in"


MODEL = np.zeros((1, 3), np.float32)
FOREVER = LinkMessage(Transfer(1e6, True, 1, 10, 10, 0, 800, math.inf, (), (), 800, 1.0), "down")
"""Ten packets, one each second, and then a long way."""


def craft_of(**changes: Any) -> Any:
    """A craft whose tasks take a million seconds to download, in a world that is always there."""
    phase = Phase(Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED, 1e6, sending=FOREVER)
    kept: dict[str, Any] = {
        "number": 4,
        "world": SimpleNamespace(online=lambda client, now_s: True, next_change=lambda client, now_s: math.inf),
        "budgets": None,
        "decoder": client_decoder(3),
        "phases": lambda said: [(phase, True)],
    }
    return SimpleNamespace(**(kept | changes))


def welcome(now_s: float = 0.0, gone: tuple[int, ...] = ()) -> Welcome:
    return Welcome(4, "run", "", 0, 5, 20, 1, True, 2.0, now_s, 5.0, gone)


class Server:
    """Holds conversations with one client, one for each of its connections."""

    def __init__(self, craft: Any, *scenes: Callable[[Server, Connection], Awaitable[None]]) -> None:
        self.craft, self.scenes = craft, list(scenes)
        self.hellos: list[Hello] = []
        self.times: list[float] = []
        self.failed: list[BaseException] = []
        self.client: LiveClient

    async def hears(self, connection: Connection) -> Any:
        return server_decoder(3).decode(await connection.receive())[0]

    async def serve(self, connection: Connection) -> None:
        self.times.append(asyncio.get_running_loop().time())
        self.hellos.append(await self.hears(connection))
        try:
            await self.scenes.pop(0)(self, connection)
        except Exception as error:
            self.failed.append(error)

    def run(self) -> str:
        async def main() -> str:
            memory = Memory(self.serve)
            self.client = LiveClient("ann", "t", memory.connect, lambda told: self.craft, samples=9, n_parameters=3)
            try:
                return await asyncio.wait_for(self.client.run(), 1000)
            finally:
                await memory.close()
                for error in self.failed:
                    raise error

        return virtual_loop.run(main)


@pytest.mark.parametrize("now_s", [-1.0, 0.0, 7.0])
@pytest.mark.parametrize("affords", [True, False, None])
@pytest.mark.parametrize("shaped", [True, False])
def test_who_is_let_in_says_whether_it_is_there_and_can_pay_and_goes_by_the_servers_clock(
    now_s: float, affords: bool | None, shaped: bool
) -> None:
    asked: list[tuple[int, float]] = []
    budgets = SimpleNamespace(
        affords=lambda client, turn: affords and not turn, describe_spending=lambda client: f"client {client} spent it"
    )
    world = SimpleNamespace(
        online=lambda client, at_s: asked.append((client, at_s)) or True, next_change=lambda client, at_s: math.inf
    )
    craft = craft_of(budgets=None if affords is None else budgets, world=world if shaped else None)

    async def scene(server: Server, connection: Connection) -> None:
        clock = server.client._clock
        assert (clock.speedup, clock.has_begun) == (1.0, False)
        await connection.send(encode(welcome(now_s)))
        spent = "client 4 spent it" if affords is False else None
        assert await server.hears(connection) == Ready(True, spent)
        clock = server.client._clock
        await connection.send(encode(Ping(3)))
        assert await server.hears(connection) == Pong(3)
        assert (clock.speedup, clock.has_begun, clock.now) == (2.0, now_s >= 0, max(0.0, now_s))
        if now_s < 0:
            await connection.send(encode(Begin(1.5)))
        await connection.send(encode(Begin(99.0)))
        await connection.send(encode(Ping(4)))
        await server.hears(connection)
        assert clock.now == (now_s if now_s >= 0 else 1.5), "it begins once"
        assert (server.client._presence is not None) == shaped
        await connection.send(encode(Over("all done")))

    server = Server(craft, scene)
    assert server.run() == "all done"
    assert server.client.ended_well
    [hello] = server.hellos
    assert (hello.name, hello.token, hello.n_parameters, hello.samples) == ("ann", "t", 3, 9)
    assert (hello.tasks, hello.given_up, len(hello.instance)) == ((), (), 16)
    assert asked[:1] == [(4, max(0.0, now_s))] * shaped


def test_what_nobody_waits_for_any_more_is_dropped_and_what_it_is_at_it_says_when_it_is_back() -> None:
    async def first(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome()))
        assert await server.hears(connection) == Ready(True, None)
        for number in (6, 8, 9):
            await connection.send(encode(Task(number, number, 0), MODEL))
        await connection.send(encode(TaskGone(8)))
        await connection.send(encode(Ping(1)))
        assert await server.hears(connection) == Pong(1)
        assert sorted(server.client._at) == [6, 9]
        await connection.close()

    async def second(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome(1.0, gone=(6,))))
        await connection.send(encode(Ping(2)))
        assert await server.hears(connection) == Pong(2), "it prepared itself before"
        assert list(server.client._at) == [9]
        await connection.send(encode(Over("all done")))
        assert await server.hears(connection) == Trace(9, ())

    server = Server(craft_of(), first, second)
    assert server.run() == "all done"
    assert [(hello.tasks, hello.given_up) for hello in server.hellos] == [((), ()), ((6, 9), ())]
    assert server.hellos[0].instance == server.hellos[1].instance


def test_who_goes_offline_in_its_world_tells_what_it_gave_up_and_is_back_when_the_world_says() -> None:
    """Offline from second 10 to second 20 and from 30 to 36 of the world, twice as fast as real ones."""
    changes = [10.0, 20.0, 30.0, 36.0, math.inf]
    world = SimpleNamespace(
        online=lambda client, now_s: sum(one <= now_s + 1e-9 for one in changes) % 2 == 0,
        next_change=lambda client, now_s: next(one for one in changes if one > now_s + 1e-9),
    )

    async def first(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome()))
        await server.hears(connection)
        await asyncio.sleep(1.0)
        for number in (0, 1):
            await connection.send(encode(Task(number, number, 0), MODEL))
        await connection.send(encode(Judge(3, 0), MODEL))
        began = Noted(0.0, "training_started")
        for told in (
            Trace(0, (Noted(8.0, "went_offline", 640, 1),)),
            Trace(1, (began, Noted(8.0, "went_offline"))),
            Trace(-1, (Noted(8.0, "sent", 640, detail="down"),)),
        ):
            assert await server.hears(connection) == told
        with pytest.raises(EndedError):
            await connection.receive()

    async def second(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome(20.0)))
        with pytest.raises(EndedError):
            await connection.receive()

    async def third(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome(36.0)))
        await connection.send(encode(Over("all done")))

    trains = Phase(Kind.TRAINING_STARTED, Kind.TRAINED, 1e6)
    fetches = Phase(Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED, 1e6, sending=FOREVER)
    craft = craft_of(
        world=world,
        phases=lambda said: [(trains if said.task else fetches, False)],
        scoring_phases=lambda said, models: [ScoringPhase(1e6, FOREVER, "scoring down")],
        workshop=SimpleNamespace(score=list),
    )
    server = Server(craft, first, second, third)
    assert server.run() == "all done"
    assert server.times == [0.0, 10.0, 18.0]
    assert [(hello.tasks, hello.given_up) for hello in server.hellos] == [((), ()), ((), (0, 1)), ((), ())]


@pytest.mark.parametrize(("kind", "what"), [(Task, "task"), (Judge, "request")])
def test_what_was_asked_before_is_not_done_again(kind: Any, what: str) -> None:
    async def scene(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome()))
        await server.hears(connection)
        for number, turn in ((6, 4), (7, 4)):
            said = kind(number, turn, 0) if kind is Task else kind(number, turn)
            await connection.send(encode(said, MODEL))
        with pytest.raises(EndedError):
            await connection.receive()

    craft = craft_of(
        scoring_phases=lambda said, models: [ScoringPhase(1e6, FOREVER)], workshop=SimpleNamespace(score=list)
    )
    server = Server(craft, scene)
    assert server.run() == (
        f"the server gave {what} 4 again after {what} 4, by its count of this client's: both would have the "
        "same noise, which could be subtracted"
    )
    assert not server.client.ended_well


def test_what_goes_wrong_here_is_raised_here_and_the_server_hears_that_the_client_is_gone() -> None:
    async def scene(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome()))
        await server.hears(connection)
        for number in (5, 6):
            await connection.send(encode(Task(number, number, 0), MODEL))
        with pytest.raises(EndedError):
            await connection.receive()

    def breaks(said: Task) -> Any:
        raise ValueError(f"task {said.task} broke")

    server = Server(craft_of(phases=breaks), scene)
    with pytest.raises(ValueError, match="task 5 broke"):
        server.run()
    assert server.client.over == "failed: task 5 broke"
    assert server.client._at == {}


def test_who_leaves_says_so_and_has_ended_well() -> None:
    async def scene(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome()))
        await server.hears(connection)
        await connection.send(encode(Task(5, 0, 0), MODEL))
        await asyncio.sleep(1.0)
        leaving = asyncio.ensure_future(server.client.leave())
        assert await server.hears(connection) == Leaving()
        await leaving
        with pytest.raises(EndedError):
            await connection.receive()

    server = Server(craft_of(), scene)
    assert server.run() == "left"
    assert server.client.ended_well
