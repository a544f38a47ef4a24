"""A federation over real sockets in which three of six enrolled clients lie as fast as they can."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

import numpy as np

from asyncfl.base.streams import Streams
from asyncfl.federation.prepare import Federation
from asyncfl.live.client import LiveClient
from asyncfl.live.clock import Terms
from asyncfl.live.conduct import BURST, IN_VAIN, REFUSALS
from asyncfl.live.connections import Connect, Connection, EndedError
from asyncfl.live.host import Host
from asyncfl.live.run import local_clients
from asyncfl.live.wire import (
    Begin,
    Gone,
    Hello,
    Noted,
    Ready,
    Refused,
    Task,
    Trace,
    Update,
    client_decoder,
    encode,
)
from asyncfl.scenario import Scenario
from tests.live.conftest import SMALL, hold_seed, tokens_of

Lie = Callable[[Connection, Task, np.ndarray], Awaitable[None]]


async def give_up(connection: Connection, task: Task, model: np.ndarray) -> None:
    """End each task at once."""
    await connection.send(encode(Gone(task.task, "dropped_out", ())))


async def forge(connection: Connection, task: Task, model: np.ndarray) -> None:
    """Report more than a table holds."""
    await connection.send(encode(Trace(task.task, tuple(Noted(0.0, "uploaded", 2**53, 40_000) for _ in range(4096)))))


async def flood(connection: Connection, task: Task, model: np.ndarray) -> None:
    """Answer at once with a valid update, and with many messages that have no effect."""
    for number in range(3):
        await connection.send(encode(Trace(1000 + number, ())))
    await connection.send(encode(Update(task.task, 0.5, 0.0, None, ()), model))


async def lies(name: str, samples: int, connect: Connect, n_parameters: int, lie: Lie, heard: Counter[str]) -> None:
    """Take part under this name until the server is gone, or refuses for good."""
    decoder = client_decoder(n_parameters)
    for number in range(2 * REFUSALS):
        with suppress(EndedError):
            connection = await connect()
            await connection.send(encode(Hello(name, f"token {name}", samples, instance=f"process {number}")))
            await connection.send(encode(Ready(True, None)))
            while True:
                message, model = decoder.decode(await connection.receive())
                heard[type(message).__name__] += 1
                if isinstance(message, Task):
                    await lie(connection, message, model)
                elif isinstance(message, Begin) and lie is forge:
                    await forge(connection, Task(-1, 0, 0), model)
                elif isinstance(message, Refused) and "is banned for this run" in message.reason:
                    heard["banned"] += 1


def test_liars_cost_honest_clients_neither_the_run_nor_its_tables() -> None:
    protocol = {
        "kind": "buffered",
        "rounds": 10_000,
        "buffer": 3,
        "dispatch": {"kind": "continuous"},
        "per_client": 1,
        "time_limit_s": 30.0,
    }
    scenario = Scenario.read({**SMALL, "protocol": protocol})
    heard: dict[Any, Counter[str]] = {lie: Counter() for lie in (give_up, forge, flood)}

    async def scene(federation: Federation, host: Host, connect: Connect, executor: Executor) -> None:
        streams, tokens = Streams(1), tokens_of(scenario)
        honest = {name: token for name, token in tokens.items() if int(name) < 3}
        made: list[LiveClient] = local_clients(federation, Terms(), honest, connect, executor, streams)
        liars = [
            lies(str(3 + place), 20, connect, federation.learner.n_parameters, lie, heard[lie])
            for place, lie in enumerate(heard)
        ]
        running = [asyncio.ensure_future(one) for one in liars]
        taking_part = asyncio.gather(*[client.run() for client in made])
        while not heard[forge]["banned"] or host.live.server.version < 8:
            await asyncio.sleep(0.01)
        host.end("seen enough")
        await taking_part
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    run = hold_seed(scenario, scene, tokens_of(scenario), terms=Terms(), sockets=True)
    assert run.stopped == "seen enough"
    assert len(run.rounds) >= 9
    events = run.events.to_pylist()
    tasks = Counter(one["client"] for one in events if one["kind"] == "dispatched")
    assert tasks[3] <= IN_VAIN + 6, "it pauses for seconds"
    assert ("banned", 4) in {(one["kind"], one["client"]) for one in events}
    assert any("client 4 was banned for the run: refused 10 times" in note for note in run.notes)
    used = Counter((one["version"], one["client"]) for one in events if one["kind"] == "aggregated")
    assert max(used.values()) == 1
    assert len(events) < 12 * sum(tasks.values()) + BURST
    assert heard[flood]["Task"] <= len(run.rounds) + 1
