"""How many updates a second does a live server take in over loopback, with aggregation?

    python benchmarks/live.py --clients 50 --seconds 10
    python benchmarks/live.py --soak 3600 --out soak.tsv    # an hour at full load, one line a minute

Clients answer at once with stored updates.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import multiprocessing
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from asyncfl.client import Assignment
from asyncfl.federation.phases import Workload
from asyncfl.federation.prepare import resolve
from asyncfl.live.client import LiveClient
from asyncfl.live.clock import Terms
from asyncfl.live.connections import listening, to
from asyncfl.live.host import Host
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


def answer(scenario: Scenario, port: int) -> None:
    """Be all clients, in a process of their own."""

    async def everybody() -> None:
        stored = Stored()
        load = Workload.of(scenario, np.full(scenario.data.clients, 10))
        with ThreadPoolExecutor(1) as executor:

            def prepare(welcome: Welcome) -> ClientSetup:
                return ClientSetup(welcome.client, scenario, stored, executor, load, None, None)

            connect = to(f"ws://127.0.0.1:{port}", 10_000_000)
            names = map(str, range(scenario.data.clients))
            made = [LiveClient(name, "t", connect, prepare, samples=10) for name in names]
            await asyncio.gather(*[client.run() for client in made])

    asyncio.run(everybody())


def memory_mb() -> float:
    """What this process holds in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


Look = Callable[[Host], None]


async def updates_per_s(scenario: Scenario, every_s: float, look: Look) -> tuple[float, float]:
    """(updates a second, seconds of processor time of the server for each).

    `look`: is shown the server each `every_s` seconds, as long as the run goes on.
    """
    used_s, seconds = math.nan, scenario.protocol.time_limit_s or math.nan

    async def everybody(host: Host) -> None:
        nonlocal used_s
        async with listening(host.serve, "127.0.0.1", 0, 10_000_000) as port:
            process = multiprocessing.get_context("spawn").Process(target=answer, args=(scenario, port))
            process.start()
            while not host.clock.has_begun:
                await asyncio.sleep(0.01)
            began_s = time.process_time()
            for look_number in range(1, math.ceil(seconds / every_s)):
                await asyncio.sleep(look_number * every_s - host.clock.now)
                if not process.is_alive():
                    raise SystemExit(f"the clients' process ended before its time, with {process.exitcode}")
                look(host)
            await host.over.wait()
            used_s = time.process_time() - began_s
            await asyncio.get_running_loop().run_in_executor(None, process.join)

    tokens = {str(client): "t" for client in range(scenario.data.clients)}
    run = await run_live(resolve(scenario, 0, SimulatedRuns()), Terms(), tokens, everybody, secret=1)
    if run.stopped != "time limit reached":
        raise SystemExit(f"it ended before its time: {run.stopped}")
    return run.trained / seconds, used_s / run.trained


def soak(scenario: Scenario, every_s: float, out: Path | None) -> None:
    """Print a line each `every_s` seconds, and write it to a file where one is given."""
    before = time.perf_counter(), 0

    def say(line: str) -> None:
        print(line, flush=True)
        if out is not None:
            with out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    def look(host: Host) -> None:
        nonlocal before
        now, trained = time.perf_counter(), host.live.trained
        rate = (trained - before[1]) / (now - before[0])
        before = now, trained
        events = len(host.live.event_log.recorder)
        say(f"{host.clock.now:.0f}\t{trained}\t{rate:.0f}\t{memory_mb():.1f}\t{host.live.server.version}\t{events}")

    say("seconds\tupdates\tupdates_per_s\tserver_rss_mb\tversion\tevents")
    asyncio.run(updates_per_s(scenario, every_s, look))


def main() -> None:
    """Print both numbers, or memory over time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--buffer", type=int, default=10)
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="run for so long, and print memory over time")
    parser.add_argument("--every", type=float, default=60.0, metavar="SECONDS", help="between two lines of a soak")
    parser.add_argument("--out", type=Path, metavar="FILE", help="that the lines of a soak are added to")
    chosen = parser.parse_args()
    scenario = scenario_of(chosen.clients, chosen.soak or chosen.seconds, chosen.buffer)
    if chosen.soak is not None:
        soak(scenario, chosen.every, chosen.out)
        return
    memory: list[float] = []
    rate, used_s = asyncio.run(updates_per_s(scenario, 0.099 * chosen.seconds, lambda _: memory.append(memory_mb())))
    print(f"{rate:.0f} updates/s of {scenario.n_parameters:,} parameters from {chosen.clients} clients of one process")
    print(f"{1000 * used_s:.2f} ms of processor time of the server for each: at most {1 / used_s:.0f}/s on one core")
    print("memory of the server, at ten moments: " + ", ".join(f"{one:.0f}" for one in memory) + " MB")
    print(f"codec alone: {codec_gb_per_s(scenario.n_parameters):.1f} GB/s")


if __name__ == "__main__":
    main()
