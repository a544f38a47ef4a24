"""A live federation whose clients are killed at random moments: it ends, fates add up, nothing is counted twice."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from asyncfl.federation.prepare import Federation, resolve
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live.clock import Terms
from asyncfl.live.host import Host
from asyncfl.live.run import Round, local_clients, run_live
from asyncfl.live.sockets import listening, to
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns

pytestmark = pytest.mark.long
KILLED = 30


def test_thirty_clients_are_killed() -> None:
    scenario = Scenario.read(
        {
            "data": {"dataset": "mnist", "clients": 40, "samples_per_client": 20, "source": "embedded"},
            "model": {"kind": "mlp", "hidden": [8]},
            "protocol": {
                "kind": "buffered",
                "rounds": 60,
                "buffer": 5,
                "dispatch": {"kind": "constant", "in_flight": 20},
            },
            "world": {
                "device": {"kind": "lognormal", "median_s_per_sample": 0.01, "sigma": 0.5},
                "failure_detection": {"kind": "lease", "seconds": 0.5},
            },
        }
    )
    tokens = {str(client): f"token {client}" for client in range(40)}
    random = np.random.default_rng(2)

    def around(federation: Federation) -> Round:
        async def everybody(host: Host) -> None:
            async with listening(host.serve, "127.0.0.1", 0, 10_000_000) as port:
                with ThreadPoolExecutor(2) as executor:
                    connect = to(f"ws://127.0.0.1:{port}", 10_000_000)
                    terms = Terms(shape=True)
                    streams = federation.resolved.streams
                    clients = local_clients(federation, terms, tokens, connect, executor, streams)
                    running = [asyncio.ensure_future(client.run()) for client in clients]
                    while host.server.version < 2:
                        await asyncio.sleep(0.01)
                    for client in random.permutation(40)[:KILLED].tolist():
                        await asyncio.sleep(float(random.exponential(0.05)))
                        running[client].cancel()
                    await asyncio.gather(*running, return_exceptions=True)

        return everybody

    async def main() -> SeedRun:
        resolved = resolve(scenario, 0, SimulatedRuns())
        return await run_live(resolved, Terms(shape=True), tokens, around, secret=1)

    run = asyncio.run(main())
    assert run.stopped == "all versions published"
    rows = run.events.to_pylist()
    assert sum(row["kind"] == "dispatched" for row in rows) == sum(run.fates.values())
    aggregated = [row["task"] for row in rows if row["kind"] == "aggregated"]
    assert len(aggregated) == len(set(aggregated)) == run.fates["aggregated"]
    assert run.fates["timed_out"] > 0
