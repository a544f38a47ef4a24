"""A server that is killed goes on where it was: from its checkpoint and the inputs after it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.federation.prepare import resolve
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live.clock import Terms
from asyncfl.live.connections import Connection, EndedError, Memory
from asyncfl.live.host import Host
from asyncfl.live.journal import Journal
from asyncfl.live.run import local_clients, run_live
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from tests.live import virtual_loop
from tests.live.conftest import SMALL, tokens_of
from tests.live.test_live import whole

SHAPED = Terms(shape=True)
SYNC = {"kind": "sync", "rounds": 12, "participants": 4}
BUFFERED = {"kind": "buffered", "rounds": 25, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 5}}


def scenario_of(**description: Any) -> Scenario:
    return Scenario.read(
        {
            **SMALL,
            "protocol": BUFFERED,
            "world": {
                "device": {"kind": "lognormal", "median_s_per_sample": 0.02, "sigma": 0.7},
                "aggregate_s": 0.05,
            },
            **description,
        }
    )


def state(host: Host) -> dict[str, Any]:
    """What a server knows."""
    live = host.live
    server, tasks = live.server, live.tasks
    return {
        "events": repr(live.event_log.table().to_pylist()),
        "version": server.version,
        "phase": server.phase,
        "open": sorted(tasks.open),
        "fates": dict(tasks.fates),
        "traffic": repr(live.traffic),
        "trained": live.trained,
        "alarms": {number: time_s for number, (time_s, _) in live.alarms.items()},
        "clients": {client.number: (client.name, client.state, client.samples) for client in live.clients.prepared},
        "uploads": len(live.federation.releases.uploads),
        "waiting": sorted(live.updates._waiting),
        "models": {task.base_version: tasks.model(task.base_version).tobytes() for task in tasks.open.values()},
    }


def held(
    folder: Path, scenario: Scenario, kills: list[float], between: Callable[[Path], None] = lambda folder: None
) -> tuple[SeedRun, list[tuple[dict[str, Any], dict[str, Any]]]]:
    """Hold a run whose server is killed at these virtual times after its last beginning, and started again.

    Returns the run, and for each kill the state of the server then and of the one that went on. `between`: called with
    the folder of the journal after each kill.
    """
    tokens, around = tokens_of(scenario), list[Memory]()
    states: list[tuple[dict[str, Any], dict[str, Any]]] = []

    async def connect() -> Connection:
        if not around:
            raise EndedError("nobody is there")
        return await around[-1].connect()

    async def clients(host: Host) -> None:
        with ThreadPoolExecutor(1) as executor:
            streams = host.live.federation.resolved.streams
            made = local_clients(host.live.federation, SHAPED, tokens, connect, executor, streams)
            await asyncio.gather(*[client.run() for client in made])

    async def main() -> SeedRun:
        resolved = resolve(scenario, 0, SimulatedRuns())
        running: asyncio.Task[None] | None = None
        for kill_s in [*kills, float("inf")]:
            hosts: list[Host] = []
            journal = Journal([folder], {"seed": 0})
            dead = states[-1][0] if states else None

            async def serve(host: Host, hosts: list[Host] = hosts, dead: Any = dead) -> None:
                nonlocal running
                if dead is not None:
                    states[-1] = dead, state(host)
                hosts.append(host)
                around.append(Memory(host.serve))
                if running is None:
                    running = asyncio.ensure_future(clients(host))
                await host.over.wait()

            run = asyncio.ensure_future(run_live(resolved, SHAPED, tokens, serve, secret=1, journal=journal))
            if kill_s == float("inf"):
                outcome = await run
                assert running is not None
                await running
                await around[-1].close()
                return outcome
            done, _ = await asyncio.wait([run], timeout=kill_s)
            if done:
                await around[-1].close()
                assert running is not None
                await running
                return run.result()
            journal.close()
            [host] = hosts
            states.append((state(host), {}))
            memory = around.pop()
            for one in [run, *memory._served]:
                one.cancel()
            await asyncio.gather(run, *memory._served, return_exceptions=True)
            between(folder)
        raise AssertionError

    return virtual_loop.run(main), states


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("protocol", [SYNC, BUFFERED])
def test_a_server_that_was_killed_goes_on_where_it_was(protocol: dict[str, Any], seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    scenario = scenario_of(protocol=protocol)
    run, states = held(tmp_path, scenario, random.uniform(0.01, 3.0, 6).tolist())
    assert states
    for before, after in states:
        assert after == before
    assert run.stopped == "all versions published"
    assert len(run.rounds) == protocol["rounds"] + 1
    whole(run)
    assert any(note.startswith(f"live: the server was started again {len(states)} times") for note in run.notes)
