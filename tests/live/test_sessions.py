"""What a server's connections go through, on virtual time: introductions, heartbeats, returns and ends."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from asyncfl.live.connections import Connection, EndedError, Memory
from asyncfl.live.host import Sessions
from asyncfl.live.wire import Hello, Over, Ping, Pong, Trace, Welcome, client_decoder, encode, server_decoder
from tests.live import virtual_loop

WELCOME = Welcome(0, "run", "", 3, 2, 5, 1, False, 1.0, -1.0, ())
TRACE = Trace(-1, ())


class Host:
    """A host that records messages and events."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.happened: list[str] = []
        self.stopped: str | None = None
        self.sessions = Sessions(self, server_decoder(4), 2.0)
        self.memory = Memory(self.sessions.serve)
        self.links: list[Any] = []
        self.takes_s = 0.0

    def connect(self, hello: Hello, link: Any) -> Any:
        self.links.append(link)
        link.write(WELCOME)
        return SimpleNamespace(name=hello.name)

    def disconnect(self, client: Any, link: Any) -> None:
        self.happened.append(f"{client.name} lost")

    async def hear(self, client: Any, said: Any, models: Any, frame: bytes) -> None:
        await asyncio.sleep(self.takes_s)
        self.heard.append((client.name, said, len(models)))

    async def join(self, name: str = "ann", of: str = "one", tasks: tuple[int, ...] = ()) -> tuple[Connection, Any]:
        connection = await self.memory.connect()
        await connection.send(encode(Hello(name, name[0], 9, tasks, instance=of)))
        return connection, await hears(connection)


async def hears(connection: Connection) -> Any:
    return client_decoder(4).decode(await connection.receive())[0]


def held(scene: Callable[[Host], Awaitable[None]]) -> Host:
    async def main() -> Host:
        host = Host()
        await scene(host)
        await host.sessions.end()
        await host.memory.close()
        return host

    return virtual_loop.run(main)


def now() -> float:
    return asyncio.get_running_loop().time()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_connection_must_introduce_itself_within_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(host: Host) -> None:
        connection = await host.memory.connect()
        with pytest.raises(EndedError):
            await connection.receive()
        assert now() == 10.0

    held(scene)
    assert said(caplog) == ["memory: said nothing for 10 s"]


def test_a_client_that_misses_three_heartbeats_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(host: Host) -> None:
        ann, _ = await host.join()
        for number in range(3):
            assert await hears(ann) == Ping()
            assert now() == 2.0 * (number + 1)
        await ann.send(encode(Pong()))
        for _ in range(3):
            assert await hears(ann) == Ping()
        with pytest.raises(EndedError):
            await ann.receive()
        assert now() == 14.0, "heard at 6 s; at 12 s three heartbeats had passed, at 14 s more than three"

    host = held(scene)
    assert said(caplog) == ["client ann: no sign of life"]
    assert (host.happened, host.heard) == (["ann lost"], [])


def test_a_client_is_not_lost_while_the_server_works_on_its_message(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(host: Host) -> None:
        host.takes_s = 30.0
        ann, _ = await host.join()
        await ann.send(encode(TRACE))
        for _ in range(15):
            assert await hears(ann) == Ping()
        await asyncio.sleep(2.5)
        assert host.heard == [("ann", TRACE, 0)]
        await ann.close()

    assert held(scene).happened == ["ann lost"]
    assert said(caplog) == []


def test_pings_do_not_pile_up_where_the_client_reads_none() -> None:
    async def scene(host: Host) -> None:
        ann, _ = await host.join()
        for _ in range(100):
            await ann.send(encode(TRACE))
            await asyncio.sleep(1.0)
        assert host.links[0].outbox.qsize() <= 1
        await ann.close()

    assert len(held(scene).heard) == 100


def test_a_jump_of_the_servers_clock_loses_no_client(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(host: Host) -> None:
        both = [(await host.join(name))[0] for name in ("ann", "bob")]
        await asyncio.sleep(1.0)
        asyncio.get_running_loop().now_s = 101.0  # type: ignore[attr-defined]
        await asyncio.sleep(0.5)
        assert said(caplog) == []
        assert host.happened == []
        for one in both:
            await one.close()

    held(scene)


def test_a_client_that_comes_after_the_end_is_told_the_reason() -> None:
    async def scene(host: Host) -> None:
        host.stopped = "x" * 2000
        connection, welcome = await host.join()
        assert welcome == Over("x" * 1000), "its welcome was never sent"
        with pytest.raises(EndedError):
            await connection.receive()

    assert held(scene).happened == ["ann lost"]


def test_connections_that_do_not_end_are_ended_after_ten_seconds() -> None:
    async def scene(host: Host) -> None:
        host.takes_s = 1e9
        ann, _ = await host.join()
        await ann.send(encode(TRACE))
        await asyncio.sleep(1.0)
        await host.sessions.end()
        assert now() == 11.0
        for _ in range(5):  # the pings of 10 s
            await hears(ann)
        with pytest.raises(EndedError):
            await ann.receive()

    assert held(scene).happened == ["ann lost"]
