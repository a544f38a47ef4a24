"""Federations whose clients bring samples of their own, in a process, on virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from asyncfl.data.client_file import ClientFile
from asyncfl.federation.prepare import Federation
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live.client import LiveClient
from asyncfl.live.clock import Terms
from asyncfl.live.connections import Connect, EndedError
from asyncfl.live.host import Host
from asyncfl.live.joining import Agreement, set_up
from asyncfl.live.task_runner import ClientSetup
from asyncfl.live.wire import Welcome
from asyncfl.scenario import Scenario
from tests.live.conftest import SMALL, hold_seed

TOKENS = {name: f"token of {name}" for name in ("ann", "bob", "cid", "dan")}


class Table:
    """What a scene works with: a host, and clients that sit down and get up."""

    def __init__(self, host: Host, folder: Path, connect: Connect, executor: Executor) -> None:
        self.host, self.connect = host, connect
        self.clients: dict[str, LiveClient] = {}
        self.running: dict[str, asyncio.Task[str]] = {}
        self.told: list[str] = []
        """What clients were told as they were let in."""
        self._folder, self._executor = folder, executor

    def sit(
        self,
        name: str,
        samples: int = 20,
        *,
        classes: int = 10,
        agreed: Scenario | None = None,
        connect: Connect | None = None,
        prepare: Callable[[Welcome], ClientSetup] | None = None,
        **options: Any,
    ) -> LiveClient:
        """A client begins to take part."""
        random = np.random.default_rng(len(name) + ord(name[0]))
        images = random.integers(0, 256, (samples, 28, 28), dtype=np.uint8)
        path = self._folder / f"{name}.npz"
        np.savez(path, x_train=images, y_train=np.arange(samples) % classes)
        terms = Agreement(agreed, self.host.live.shape)
        given = {"own": ClientFile(path), "agreed": terms, "executor": self._executor, "tell": self.told.append}
        craft = prepare or partial(set_up, **given)
        token = TOKENS.get(name, "none")
        client = LiveClient(name, token, connect or self.connect, craft, samples=samples, **options)
        self.clients[name] = client
        self.running[name] = asyncio.ensure_future(client.run())
        return client

    def cut(self, name: str) -> None:
        """The network of a client is another one from now on: nothing comes through, and only the client knows."""
        connection = self.clients[name]._connection
        assert connection is not None

        async def nothing() -> bytes:
            raise EndedError("gone")

        connection.receive = nothing  # type: ignore[method-assign]
        connection._incoming.end()  # type: ignore[attr-defined]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something."""
        while not condition():
            await asyncio.sleep(0.01)


Scene = Callable[[Table], Awaitable[None]]


def apart(
    description: dict[str, Any], folder: Path, scene: Scene, *, shape: bool = True, at_least: int = 2
) -> tuple[SeedRun, Table]:
    """Hold a seed with the clients that `scene` starts; return the run and the table."""
    tables: list[Table] = []

    async def with_table(federation: Federation, host: Host, connect: Connect, executor: Executor) -> None:
        table = Table(host, folder, connect, executor)
        tables.append(table)
        await scene(table)
        await host.over.wait()
        await asyncio.gather(*table.running.values(), return_exceptions=True)

    scenario = Scenario.read({**SMALL, **description})
    return hold_seed(scenario, with_table, TOKENS, terms=Terms(shape=shape), at_least=at_least, known=False), tables[0]
