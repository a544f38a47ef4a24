"""Whole live federations in a process, on virtual time."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

from asyncfl.extras.live.clock import LiveTiming
from asyncfl.extras.live.host import Host
from asyncfl.extras.live.live_run import local_clients, run_live
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from asyncfl.simulation.prepare import resolve
from asyncfl.simulation.seed_run import SeedRun
from tests.extras.live import virtual_loop

SMALL: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 6, "samples_per_client": 20, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {"lr": 0.1, "batch_size": 10, "epochs": 1},
    "protocol": {"kind": "sync", "rounds": 3},
}


Scene = Callable[[Host, Executor], Awaitable[None]]
"""Start clients of a host, and return when they have ended."""

SHAPED = LiveTiming(shape=True)


def hold_seed(
    scenario: Scenario, scene: Scene, *, timing: LiveTiming = SHAPED, seed: int = 0, real: bool = False, **options: Any
) -> SeedRun:
    """Run a seed with the clients that `scene` starts, on virtual time or in real time."""

    async def around(host: Host) -> None:
        with ThreadPoolExecutor(1) as executor:
            await scene(host, executor)

    async def main() -> SeedRun:
        resolved = resolve(scenario, seed, SimulatedRuns())
        return await run_live(resolved, timing, around, secret=1, **options)

    return asyncio.run(main()) if real else virtual_loop.run(main)


def live(scenario: Scenario, seed: int = 0, *, shape: bool = True, virtual: bool = False) -> SeedRun:
    """Run a seed on virtual time with all its clients. `virtual`: as `asyncfl live here --virtual` does."""

    async def scene(host: Host, executor: Executor) -> None:
        clients = local_clients(host, executor, host.live.federation.resolved.streams)
        await asyncio.gather(*[client.run() for client in clients])

    return hold_seed(scenario, scene, timing=LiveTiming(shape=shape, virtual=virtual), seed=seed)


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
