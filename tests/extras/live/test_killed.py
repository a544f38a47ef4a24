"""Clients that end at random moments, and are started again: the run ends, and nothing is lost or counted twice."""

import asyncio
from concurrent.futures import Executor

import numpy as np
import pytest

from asyncfl.extras.live.client import LiveClient
from asyncfl.extras.live.host import Host
from asyncfl.extras.live.live_run import local_clients
from asyncfl.scenario import Scenario
from asyncfl.simulation.seed_run import SeedRun
from tests.extras.live.conftest import SMALL, hold_seed
from tests.extras.live.test_live import whole

KILLED = 30


def held(protocol: dict[str, object], seed: int, *, real: bool = False) -> tuple[SeedRun, int]:
    """Run 40 clients of which 30 end, each at a random moment, and half of them are started again.

    `real`: in real time, ten times as fast.
    """
    scale = 0.1 if real else 1.0
    scenario = Scenario.read(
        {
            **SMALL,
            "data": {**SMALL["data"], "clients": 40, "samples_per_client": 10},
            "protocol": protocol,
            "world": {
                "device": {"kind": "lognormal", "median_s_per_sample": 0.1 * scale, "sigma": 0.7},
                "failure_detection": {"kind": "lease", "seconds": 2.0 * scale},
            },
        }
    )
    random, killed = np.random.default_rng(seed), [0]

    async def scene(host: Host, executor: Executor) -> None:
        clients = local_clients(host, executor, host.live.federation.resolved.streams)
        running = [asyncio.ensure_future(client.run()) for client in clients]

        async def kill(number: int, at_s: float, again_s: float | None) -> None:
            await asyncio.sleep(at_s)
            killed[0] += running[number].cancel()
            if again_s is not None:
                await asyncio.sleep(again_s)
                again = LiveClient(clients[number]._setup, host, 10, "again")
                running.append(asyncio.ensure_future(again.run()))

        kills = [
            kill(number, scale * random.uniform(0, 12), scale * random.uniform(0, 5) if place % 2 else None)
            for place, number in enumerate(random.permutation(40)[:KILLED].tolist())
        ]
        # The run begins when all are connected at once: it would wait in vain for one that ended before.
        while not host.clock.has_begun:
            await asyncio.sleep(0.01)
        await asyncio.gather(*kills)
        await host.over.wait()
        await asyncio.gather(*running, return_exceptions=True)

    return hold_seed(scenario, scene, real=real), killed[0]


SYNC = {"kind": "sync", "rounds": 25, "participants": 12}
BUFFERED = {"kind": "buffered", "rounds": 60, "buffer": 5, "dispatch": {"kind": "constant", "in_flight": 20}}


LONG = [(one, seed, False) for one in (SYNC, BUFFERED) for seed in range(1, 6)] + [(BUFFERED, 0, True)]


@pytest.mark.parametrize(
    ("protocol", "seed", "real"),
    [(BUFFERED, 0, False), *[pytest.param(*one, marks=pytest.mark.long) for one in LONG]],
)
def test_thirty_clients_end_at_random_moments(protocol: dict[str, object], seed: int, real: bool) -> None:
    run, killed = held(protocol, seed, real=real)
    assert killed >= 20
    assert run.stopped == "all versions published"
    assert len(run.rounds) == protocol["rounds"] + 1  # type: ignore[operator]
    assert run.fates["timed_out"] + run.fates["dropped_out"] > 0
    whole(run)
