"""How many updates a second does a live server take in over TLS on the loopback, with aggregation?

    python benchmarks/live.py --clients 50 --seconds 10
    python benchmarks/live.py --profile

Clients, in one process of their own, answer at once with the model that they were sent.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import math
import multiprocessing
import pstats
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from asyncfl.client import Assignment
from asyncfl.federation.phases import Workload
from asyncfl.federation.prepare import resolve
from asyncfl.live.client import LiveClient
from asyncfl.live.clock import Terms
from asyncfl.live.connections import listening, to
from asyncfl.live.host import Host
from asyncfl.live.keys import CERTIFICATE, client_context, make_keys, server_context
from asyncfl.live.local_training import LocalTraining, TrainedUpdate
from asyncfl.live.run import run_live
from asyncfl.live.task_runner import ClientSetup
from asyncfl.live.wire import Update, Welcome, encode, server_decoder
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns


class Stored(LocalTraining):
    """Answers each task at once, with an update that was there before: none, so that the model stays finite."""

    def __init__(self) -> None:
        """Nothing is trained."""
        self.threats = self.personal = None
        self._left = {}

    def train(self, assignment: Assignment, attacks: bool, deadline_s: float | None = None) -> TrainedUpdate:
        """The model as it was sent."""
        return TrainedUpdate(assignment.base[None], 0.5, 0.0, None)


def codec_gb_per_s(n_parameters: int) -> float:
    """Gigabytes a second that one core encodes and decodes."""
    model = np.zeros((1, n_parameters), np.float32)
    update = Update(3, 0.5, 0.0, None, ())
    decoder, rounds = server_decoder(n_parameters), 1000
    began = time.perf_counter()
    for _ in range(rounds):
        decoder.decode(encode(update, model))
    return rounds * model.nbytes / (time.perf_counter() - began) / 1e9


def scenario_of(clients: int, seconds: float, buffer: int) -> Scenario:
    """Clients that are asked again as soon as they have answered; nothing is evaluated."""
    return Scenario.read(
        {
            "data": {"dataset": "mnist", "clients": clients, "samples_per_client": 10, "source": "embedded"},
            "model": {"kind": "mlp", "hidden": [256]},
            "protocol": {
                "kind": "buffered",
                "rounds": 1_000_000,
                "buffer": buffer,
                "dispatch": {"kind": "continuous"},
                "time_limit_s": seconds,
            },
            "evaluation": {"train_every": 0, "test_every": 0},
        }
    )


def memory_mb() -> float:
    """What this process holds in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def answer(scenario: Scenario, port: int, certificate: Path | None) -> None:
    """Be all clients, in a process of their own. `certificate`: of the server; None: without TLS."""

    async def everybody() -> None:
        stored = Stored()
        load = Workload.of(scenario, np.full(scenario.data.clients, 10))
        with ThreadPoolExecutor(1) as executor:

            def prepare(welcome: Welcome) -> ClientSetup:
                return ClientSetup(welcome.client, scenario, stored, executor, load, None, None)

            tls = None if certificate is None else client_context(certificate)
            connect = to(f"{'ws' if tls is None else 'wss'}://127.0.0.1:{port}", 10_000_000, tls)
            names = map(str, range(scenario.data.clients))
            made = [LiveClient(name, "t", connect, prepare, samples=10) for name in names]
            await asyncio.gather(*[client.run() for client in made])

    asyncio.run(everybody())


async def updates_per_s(scenario: Scenario, keys: Path | None, look: Callable[[], None]) -> tuple[float, float]:
    """(updates a second, seconds of processor time of the server for each).

    `keys`: folder with the server's certificate and key; None: without TLS. `look`: called ten times.
    """
    used_s, seconds = math.nan, scenario.protocol.time_limit_s or math.nan

    async def everybody(host: Host) -> None:
        nonlocal used_s
        tls, certificate = (None, None) if keys is None else (server_context(keys), keys / CERTIFICATE)
        async with listening(host.serve, "127.0.0.1", 0, 10_000_000, tls) as port:
            process = multiprocessing.get_context("spawn").Process(target=answer, args=(scenario, port, certificate))
            process.start()
            while not host.clock.has_begun and process.is_alive():
                await asyncio.sleep(0.01)
            began_s = time.process_time()
            for number in range(1, 11):
                await asyncio.sleep(number * 0.099 * seconds - host.clock.now)
                if not process.is_alive():
                    raise SystemExit(f"the clients' process ended before its time, with {process.exitcode}")
                look()
            await host.over.wait()
            used_s = time.process_time() - began_s
            await asyncio.get_running_loop().run_in_executor(None, process.join)

    tokens = {str(client): "t" for client in range(scenario.data.clients)}
    run = await run_live(resolve(scenario, 0, SimulatedRuns()), Terms(), tokens, everybody, secret=1)
    if run.stopped != "time limit reached":
        raise SystemExit(f"it ended before its time: {run.stopped}")
    return run.trained / seconds, used_s / run.trained


def main() -> None:
    """Print rates, processor time and memory, and with --profile where the time goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--buffer", type=int, default=10)
    parser.add_argument("--plain", action="store_true", help="without TLS")
    parser.add_argument(
        "--profile", action="store_true", help="print the functions of the event loop that take longest"
    )
    chosen = parser.parse_args()
    scenario = scenario_of(chosen.clients, chosen.seconds, chosen.buffer)
    memory: list[float] = []
    profile = cProfile.Profile(time.thread_time)
    with TemporaryDirectory() as folder, profile if chosen.profile else nullcontext():
        keys = None if chosen.plain else Path(folder) / "keys"
        if keys is not None:
            make_keys(keys, ["127.0.0.1"], [], 1)
        rate, used_s = asyncio.run(updates_per_s(scenario, keys, lambda: memory.append(memory_mb())))
    way = "without TLS" if chosen.plain else "over TLS"
    print(f"{rate:.0f} updates/s of {scenario.n_parameters:,} parameters {way} from {chosen.clients} clients")
    print(f"{1000 * used_s:.2f} ms of processor time of the server for each: at most {1 / used_s:.0f}/s on one core")
    print("memory of the server, at ten moments: " + ", ".join(f"{one:.0f}" for one in memory) + " MB")
    print(f"codec alone: {codec_gb_per_s(scenario.n_parameters):.1f} GB/s")
    if chosen.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
