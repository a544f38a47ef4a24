"""A client by itself, and servers that are none."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from asyncfl.live.client import LiveClient
from asyncfl.live.errands import Craft
from asyncfl.live.transport import Connection, Memory
from asyncfl.live.vocabulary import Judge, Task, Welcome
from asyncfl.live.wire import encode
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
