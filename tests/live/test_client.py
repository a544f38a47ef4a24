"""One client and a server that a test plays."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as replaced

from asyncfl.base.messages import Fate
from asyncfl.federation.phases import LinkMessage, Phase
from asyncfl.live.client import MOST_UNHEARD, LiveClient
from asyncfl.live.client_memory import ClientMemory, ClientMemoryError, ClientMemoryFile
from asyncfl.live.connections import Connection, EndedError, Memory
from asyncfl.live.wire import (
    Begin,
    Gone,
    Heard,
    Hello,
    Judge,
    Leaving,
    Numbered,
    Over,
    Ping,
    Pong,
    Ready,
    Task,
    Trace,
    Welcome,
    client_decoder,
    encode,
    server_decoder,
)
from asyncfl.trace import Kind
from asyncfl.world import Transfer
from tests.live import virtual_loop

MODEL = np.zeros((1, 3), np.float32)
FOREVER = LinkMessage(Transfer(1e6, True, 1, 10, 10, 0, 800, math.inf, (), (), 800, 1.0), "down")
"""Ten packets, one each second, and then a long way."""


def craft_of(**changes: Any) -> Any:
    """A setup whose tasks take a million seconds to download, in a world that is always there."""
    phase = Phase(Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED, 1e6, sending=FOREVER)
    kept: dict[str, Any] = {
        "number": 4,
        "world": SimpleNamespace(online=lambda client, now_s: True, next_change=lambda client, now_s: math.inf),
        "budgets": None,
        "scenario": SimpleNamespace(n_parameters=3),
        "observer": None,
        "limits": None,
        "training": SimpleNamespace(keep=lambda client, personal, left_over: None),
        "decoder": client_decoder(3),
        "phases": lambda said: [(phase, True)],
    }
    return SimpleNamespace(**(kept | changes))


def welcome(now_s: float = 0.0, gone: tuple[int, ...] = (), run: str = "run", heard: int = 0) -> Welcome:
    return Welcome(4, run, "", 0, 5, 20, 1, True, 2.0, now_s, gone, heard)


class Server:
    """Holds conversations with one client, one for each of its connections."""

    def __init__(self, setup: Any, *scenes: Callable[[Server, Connection], Awaitable[None]]) -> None:
        self.setup, self.scenes = setup, list(scenes)
        self.hellos: list[Hello] = []
        self.times: list[float] = []
        self.numbers: list[int] = []
        """Numbers of the messages that were heard."""
        self.failed: list[BaseException] = []
        self.client: LiveClient
        self.memory: Memory

    async def connect(self) -> Connection:
        return await self.memory.connect()

    async def hears(self, connection: Connection) -> Any:
        said = server_decoder(3).decode(await connection.receive())[0]
        if isinstance(said, Numbered):
            self.numbers.append(said.number)
            said = replaced(said, number=0)
        return said

    async def serve(self, connection: Connection) -> None:
        self.times.append(asyncio.get_running_loop().time())
        self.hellos.append(await self.hears(connection))
        try:
            await self.scenes.pop(0)(self, connection)
        except Exception as error:
            self.failed.append(error)

    def run(self) -> str:
        async def main() -> str:
            self.memory = Memory(self.serve)
            self.client = LiveClient("ann", "t", lambda: self.connect(), lambda told: self.setup, samples=9)
            try:
                return await asyncio.wait_for(self.client.run(), 1000)
            finally:
                await self.memory.close()
                for error in self.failed:
                    raise error

        return virtual_loop.run(main)


@pytest.mark.parametrize("is_welcome", [True, False])
@pytest.mark.parametrize(
    ("message", "models", "why"),
    [
        (Task(0, 0, 0), None, "a task comes with one model of 3 parameters, got 0 of 0"),
        (Task(0, 0, 0), MODEL[:, :2], "a task comes with one model of 3 parameters, got 1 of 2"),
        (Task(0, 0, 0), np.zeros((2, 3), np.float32), "a task comes with one model of 3 parameters, got 2 of 3"),
        (Judge(0, 0), MODEL[:, :2], "a request comes with models of 3 parameters, got 1 of 2"),
    ],
)
def test_work_without_its_models_or_before_a_welcome_is_refused(
    message: Task | Judge, models: np.ndarray | None, why: str, is_welcome: bool
) -> None:
    async def scene(server: Server, connection: Connection) -> None:
        if is_welcome:
            await connection.send(encode(welcome()))
            await server.hears(connection)
        await connection.send(encode(message, models))

    if not is_welcome:
        early = "it gives work to a client that it has not let in"
        why = early if models is None else "at most 4096 models of 0 parameters may come"
    assert Server(craft_of(), scene).run().startswith(f"the server cannot be understood: {why}")


@pytest.mark.parametrize("affords", [True, False, None])
def test_a_client_says_at_once_that_its_budget_is_spent_and_takes_over_the_servers_clock(affords: bool | None) -> None:
    budgets = SimpleNamespace(
        affords=lambda client, turn: affords and not turn, describe_spending=lambda client: f"client {client} spent it"
    )

    async def scene(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome(-1.0)))
        assert await server.hears(connection) == Ready(True, "client 4 spent it" if affords is False else None)
        clock = server.client._clock
        assert (clock.speedup, clock.has_begun) == (2.0, False)
        for begin in (Begin(1.5), Begin(99.0)):
            await connection.send(encode(begin))
        await connection.send(encode(Ping()))
        assert await server.hears(connection) == Pong()
        assert clock.now == 1.5, "the clock begins once"
        await connection.send(encode(Over("all done")))

    server = Server(craft_of(budgets=None if affords is None else budgets), scene)
    assert server.run() == "all done"
    assert server.client.ended_well
    [hello] = server.hellos
    assert (hello.name, hello.token, hello.samples, hello.tasks) == ("ann", "t", 9, ())


def test_a_reconnecting_client_names_its_open_tasks_and_drops_those_the_server_gave_up() -> None:
    async def first(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome()))
        assert await server.hears(connection) == Ready(True, None)
        await connection.send(encode(Task(6, 6, 0), MODEL))
        await connection.send(encode(Ping()))
        assert await server.hears(connection) == Pong()
        assert list(server.client._activities) == [6]
        await connection.close()

    async def second(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome(1.0, gone=(6,), heard=1)))
        await connection.send(encode(Ping()))
        assert await server.hears(connection) == Pong(), "it prepared itself before"
        assert list(server.client._activities) == []
        await connection.send(encode(Task(9, 9, 0), MODEL))
        await connection.send(encode(Over("all done")))
        assert await server.hears(connection) == Trace(9, ())

    server = Server(craft_of(), first, second)
    assert server.run() == "all done"
    assert [hello.tasks for hello in server.hellos] == [(), (6,)]
    assert server.hellos[0].instance == server.hellos[1].instance


def test_an_answer_is_kept_until_it_was_heard_and_what_nobody_waits_for_is_only_counted() -> None:
    lost = Phase(Kind.DOWNLOAD_STARTED, Kind.LOST, 0.0, fails=Fate.LOST_DOWN)

    async def first(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome()))
        assert await server.hears(connection) == Ready(True, None)
        await connection.send(encode(Heard(1)))
        for number in (6, 7):
            await connection.send(encode(Task(number, number, 0), MODEL))
            assert (await server.hears(connection)).task == number
        await connection.close()

    async def second(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome(1.0, gone=(6,), heard=1)))
        again = [await server.hears(connection) for _ in range(2)]
        assert [(type(one), one.task) for one in again] == [(Trace, 6), (Gone, 7)]
        await connection.send(encode(Heard(3)))
        await connection.close()

    async def third(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome(1.0, heard=3)))
        await connection.send(encode(Ping()))
        assert await server.hears(connection) == Pong()
        await connection.send(encode(Over("all done")))

    server = Server(craft_of(phases=lambda said: [(lost, False)]), first, second, third)
    assert server.run() == "all done"
    assert [hello.tasks for hello in server.hellos] == [(), (6, 7), ()]
    assert server.numbers == [1, 2, 3, 2, 3]


def test_memory_comes_back_from_its_file_and_earlier_runs_are_counted(tmp_path: Path) -> None:
    file = ClientMemoryFile(tmp_path / "ann.memory", "ann")
    assert file.load() == ClientMemory("ann")
    memory = ClientMemory("ann", "one", [("upload", 0, None), ("scores", 3, None)], {"task": 4}, uploads=2, earlier=5)
    memory.keep_rows(np.arange(3, dtype=np.float32), None)
    file.save(memory)
    assert file.path.stat().st_mode & 0o777 == 0o600
    again = file.load()
    assert again == memory
    assert again.of_run("one") is again
    personal, left_over = again.rows
    assert personal is not None
    assert (personal.tolist(), left_over) == ([0.0, 1.0, 2.0], None)
    assert again.of_run("two") == ClientMemory("ann", "two", earlier=7)
    with pytest.raises(ClientMemoryError, match=r"ann.memory is the memory of client ann, not of bob"):
        ClientMemoryFile(file.path, "bob").load()
    file.path.write_bytes(b"\x93\x01")
    with pytest.raises(ClientMemoryError, match=r"ann.memory is not the memory of a client .*remove it only if"):
        file.load()
    with pytest.raises(ClientMemoryError, match=r"there is no folder .*no update leaves before its cost is on record"):
        ClientMemoryFile(tmp_path / "none" / "ann.memory", "ann").save(memory)


def test_a_server_that_hears_no_answer_gets_no_more_of_them() -> None:
    """Each is kept until it was heard."""
    lost = Phase(Kind.DOWNLOAD_STARTED, Kind.LOST, 0.0, fails=Fate.LOST_DOWN)
    given: list[int] = []

    async def scene(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome()))
        assert await server.hears(connection) == Ready(True, None)
        for number in range(100):
            await connection.send(encode(Task(number, number, 0), MODEL))
            given.append(number)
            if isinstance(await server.hears(connection), Leaving):
                return

    reason = Server(craft_of(phases=lambda said: [(lost, False)]), scene).run()
    assert reason == f"the server gives work and has not heard {MOST_UNHEARD} messages"
    assert len(given) == MOST_UNHEARD


@pytest.mark.parametrize("given", [Task(998, 7, 0), Judge(998, 7)], ids=["task", "request"])
def test_a_client_never_draws_the_same_noise_for_two_models(given: Task | Judge) -> None:
    async def scene(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome()))
        for number in (998, 999):
            repeated = Task(number, 7, 0) if isinstance(given, Task) else Judge(number, 7)
            await connection.send(encode(repeated, MODEL))

    server = Server(craft_of(scoring_phases=lambda said, models: []), scene)
    what = "task" if isinstance(given, Task) else "request"
    assert server.run().startswith(f"the server gave {what} 7 again after {what} 7")
    assert not server.client.ended_well


def test_a_client_does_not_continue_with_another_run() -> None:
    async def first(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome()))
        await server.hears(connection)
        await connection.close()

    async def second(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome(run="another")))

    reason = Server(craft_of(), first, second).run()
    assert reason == "the server holds another run now; join again to take part in that"


def test_a_client_that_could_not_say_that_it_is_ready_says_it_again() -> None:
    async def first(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome()))
        await connection.close()

    async def second(server: Server, connection: Connection) -> None:
        await connection.send(encode(welcome(1.0)))
        assert await server.hears(connection) == Ready(True, None)
        await connection.send(encode(Over("all done")))

    assert Server(craft_of(), first, second).run() == "all done"


def test_a_client_gives_up_a_missing_server_with_one_message() -> None:
    told: list[str] = []

    async def nobody() -> Connection:
        raise EndedError("cannot connect to wss://here:1: Connection refused")

    async def main() -> str:
        client = LiveClient("cid", "t", nobody, lambda told: craft_of(), samples=9, patience_s=30.0, tell=told.append)
        return await client.run()

    assert virtual_loop.run(main) == "cannot connect to wss://here:1: Connection refused; it was tried for 30 s"
    assert told == ["cannot connect to wss://here:1: Connection refused; trying again"]
