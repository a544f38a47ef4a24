"""Whole live federations in a process, on virtual time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from asyncfl.federation.prepare import Federation
from asyncfl.federation.resolve import resolve
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live.host import Host
from asyncfl.live.run import Round, hold, local_clients
from asyncfl.live.terms import Terms
from asyncfl.live.transport import Memory
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from tests.live import virtual_loop

SMALL: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 6, "samples_per_client": 20, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {"lr": 0.1, "batch_size": 10, "epochs": 1},
    "protocol": {"kind": "sync", "rounds": 3},
}


def live(scenario: Scenario, seed: int = 0, *, shape: bool = True) -> SeedRun:
    """A seed held on a virtual loop, all its clients in memory."""

    async def main() -> SeedRun:
        resolved = resolve(scenario, seed, SimulatedRuns())
        terms = Terms(shape=shape)
        tokens = {str(client): f"token {client}" for client in range(scenario.data.clients)}

        def around(federation: Federation) -> Round:
            async def everybody(host: Host) -> None:
                memory = Memory(host.serve)
                with ThreadPoolExecutor(1) as executor:
                    clients = local_clients(
                        federation, terms, tokens, memory.connect, executor, federation.resolved.streams
                    )
                    await asyncio.gather(*[client.run() for client in clients])
                await memory.close()

            return everybody

        return await hold(resolved, terms, tokens, around, secret=1)

    return virtual_loop.run(main)


@pytest.fixture(scope="session", name="live")
def make_live() -> Callable[..., SeedRun]:
    """`live`."""
    return live


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [one for one in threading.enumerate() if one not in before and one.is_alive()]
    assert not [one for one in left if "pytest" not in one.name], left
