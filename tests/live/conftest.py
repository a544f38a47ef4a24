"""Whole live federations in a process, on virtual time."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

from asyncfl.federation.prepare import Federation, resolve
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live.clock import Terms
from asyncfl.live.connections import Connect, Memory, listening, to
from asyncfl.live.host import Host
from asyncfl.live.run import local_clients, run_live
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from tests.live import virtual_loop

SMALL: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 6, "samples_per_client": 20, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {"lr": 0.1, "batch_size": 10, "epochs": 1},
    "protocol": {"kind": "sync", "rounds": 3},
}


Scene = Callable[[Federation, Host, Connect, Executor], Awaitable[None]]
"""Start clients that reach the host through `connect`, and return when they have ended."""


def tokens_of(scenario: Scenario) -> dict[str, str]:
    """Tokens of clients named after their numbers."""
    return {str(client): f"token {client}" for client in range(scenario.data.clients)}


SHAPED = Terms(shape=True)


def hold_seed(
    scenario: Scenario,
    scene: Scene,
    tokens: dict[str, str],
    *,
    terms: Terms = SHAPED,
    seed: int = 0,
    sockets: bool = False,
    **options: Any,
) -> SeedRun:
    """Hold a seed for the clients that `scene` starts: in memory on virtual time, or over sockets of this machine."""

    async def around(host: Host) -> None:
        with ThreadPoolExecutor(1) as executor:
            if sockets:
                async with listening(host.serve, "127.0.0.1", 0, 10_000_000) as port:
                    await scene(host.live.federation, host, to(f"ws://127.0.0.1:{port}", 10_000_000), executor)
            else:
                memory = Memory(host.serve)
                await scene(host.live.federation, host, memory.connect, executor)
                await memory.close()

    async def main() -> SeedRun:
        resolved = resolve(scenario, seed, SimulatedRuns())
        return await run_live(resolved, terms, tokens, around, secret=1, **options)

    return asyncio.run(main()) if sockets else virtual_loop.run(main)


def live(scenario: Scenario, seed: int = 0, *, shape: bool = True, virtual: bool = False) -> SeedRun:
    """Hold a seed on virtual time with all its clients in memory. `virtual`: as `asyncfl live here --virtual` does."""
    terms = Terms(shape=shape, virtual=virtual)

    async def scene(federation: Federation, host: Host, connect: Connect, executor: Executor) -> None:
        streams, observe = federation.resolved.streams, host.observe if virtual else None
        clients = local_clients(federation, terms, tokens_of(scenario), connect, executor, streams, observe)
        await asyncio.gather(*[client.run() for client in clients])

    return hold_seed(scenario, scene, tokens_of(scenario), terms=terms, seed=seed)


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
