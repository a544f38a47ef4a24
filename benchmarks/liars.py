"""Do clients that send random lies harm a live federation: its accuracy, its memory, its tables?

    python benchmarks/liars.py --clients 50 --liars 5 --seconds 3600 --out soak.tsv
    python benchmarks/liars.py --clients 50 --liars 5 --seconds 3600 --silent    # the same without what they say

Honest clients train on images in one process, liars say anything to anybody in another, all over the loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from asyncfl.api import gather, run_of
from asyncfl.base.streams import Streams
from asyncfl.client import Assignment
from asyncfl.federation.prepare import prepare, resolve
from asyncfl.federation.storage import LIVE
from asyncfl.live.client import LiveClient
from asyncfl.live.clock import Terms
from asyncfl.live.connections import EndedError, listening, to
from asyncfl.live.host import Host
from asyncfl.live.local_training import LocalTraining, TrainedUpdate
from asyncfl.live.run import local_clients, run_live
from asyncfl.live.wire import (
    Gone,
    Hello,
    Leaving,
    Noted,
    Ready,
    Refused,
    Scores,
    Spent,
    Task,
    Trace,
    Update,
    WireError,
    client_decoder,
    encode,
)
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from asyncfl.trace import Kind

FRAME_BYTES = 10_000_000
SAMPLES = 100
NUMBERS = (-1, 0, 1, 2, 3, 40_000, 2**53)
FLOATS = (0.0, 0.5, -1.0, 1e308, float("nan"), float("inf"))


def scenario_of(clients: int, seconds: float, buffer: int) -> Scenario:
    """Clients that are asked again as soon as they have answered."""
    return Scenario.read(
        {
            "data": {"dataset": "mnist", "clients": clients, "samples_per_client": SAMPLES},
            "model": {"kind": "mlp", "hidden": [64]},
            "training": {"lr": 0.05, "batch_size": 20, "epochs": 1},
            "protocol": {
                "kind": "buffered",
                "rounds": 10_000_000,
                "buffer": buffer,
                "dispatch": {"kind": "continuous"},
                "weighting": "uniform",
                "time_limit_s": seconds,
            },
            # Liars may send any model: clipping bounds what a single one does.
            "privacy": {"kind": "dp_fedavg", "noise_at": "server", "noise_multiplier": 0.001, "clip_norm": 1.0},
            "evaluation": {"train_every": 0, "test_every": 5},
        }
    )


def be_honest(scenario: Scenario, port: int, honest: int) -> None:
    """Be the first `honest` clients, each of which takes 2 to 6 seconds for a task."""
    training = LocalTraining.train

    def train(self: LocalTraining, assignment: Assignment, *options: Any) -> TrainedUpdate:
        time.sleep(random.uniform(2.0, 6.0))
        return training(self, assignment, *options)

    LocalTraining.train = train  # type: ignore[method-assign]

    async def everybody() -> None:
        federation, tokens = prepare(resolve(scenario, 0, SimulatedRuns())), {str(one): "t" for one in range(honest)}
        with ThreadPoolExecutor(honest) as executor:
            connect = to(f"ws://127.0.0.1:{port}", FRAME_BYTES)
            made: list[LiveClient] = local_clients(federation, Terms(), tokens, connect, executor, Streams(1))
            await asyncio.gather(*[client.run() for client in made])

    asyncio.run(everybody())


def lie(task: int, n_parameters: int) -> bytes:
    """Return a frame that may hold anything. `task`: that the client is at."""
    pick, number = random.choice, partial(random.choice, NUMBERS)
    kinds = [kind.value for kind in Kind] + ["sent", "x" * 100]
    report = tuple(
        Noted(random.uniform(0, 3), pick(kinds), number(), number(), pick(("", "up", "down")))
        for _ in range(pick((0, 0, 1, 5, 4096)))
    )
    model = np.full((1, n_parameters), pick((0.0, 1e4, 3e38, np.nan)), np.float32)
    of = pick((task, task, max(0, task + 1), 2**53))
    match random.randrange(9):
        case 0:
            return random.randbytes(random.randrange(200))
        case 1:
            return encode(Update(of, pick(FLOATS), pick(FLOATS), None, report), model)
        case 2:
            return encode(Update(of, 0.5, 0.0, None, ()), model)
        case 3:
            return encode(Gone(of, pick(("dropped_out", "lost_up", "aggregated")), report))
        case 4:
            return encode(Scores(of, (pick(FLOATS),) * 3, report))
        case 5:
            return encode(Trace(pick((-1, of)), report))
        case 6:
            return encode(Spent("x" * random.randrange(1000))) if random.random() < 0.1 else encode(Trace(of, ()))
        case 7:
            return encode(Leaving())
    return encode(Gone(of, "dropped_out", ()))


async def be_a_liar(name: str, port: int, n_parameters: int) -> None:
    """Say anything as an enrolled client, as fast as the server takes it."""
    connect, decoder = to(f"ws://127.0.0.1:{port}", FRAME_BYTES), client_decoder(n_parameters)
    while True:
        with suppress(EndedError, WireError):
            connection = await connect()
            samples = SAMPLES if random.random() < 0.9 else 2**53
            await connection.send(encode(Hello(name, "t", samples, instance=random.choice("ab"))))
            await connection.send(encode(Ready(True, None)))
            while True:
                message, _ = decoder.decode(await connection.receive())
                if isinstance(message, Task):
                    for _ in range(random.randrange(1, 20)):
                        await connection.send(lie(message.task, n_parameters))
                elif isinstance(message, Refused):
                    break
        await asyncio.sleep(random.uniform(0, 0.2))


def be_liars(names: list[str], port: int, n_parameters: int) -> None:
    """Be all liars."""

    async def everybody() -> None:
        await asyncio.gather(*[be_a_liar(name, port, n_parameters) for name in names])

    random.seed(1)
    asyncio.run(everybody())


def memory_mb() -> float:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


async def soak(scenario: Scenario, liars: int, silent: bool, every_s: float, say: Callable[[str], None]) -> Any:
    """Run to the end, `silent` without the liars; `say` is called with a line each `every_s` seconds.

    Returns the results of the seed.
    """
    clients = scenario.data.clients
    honest = clients - liars
    rows: list[Any] = []

    async def everybody(host: Host) -> None:
        spawn = multiprocessing.get_context("spawn")
        async with listening(host.serve, "127.0.0.1", 0, FRAME_BYTES) as port:
            names = [] if silent else [str(one) for one in range(honest, clients)]
            n_parameters = scenario.n_parameters
            made = [
                spawn.Process(target=be_honest, args=(scenario, port, honest), daemon=True),
                spawn.Process(target=be_liars, args=(names, port, n_parameters), daemon=True),
            ]
            for process in made:
                process.start()
            while not host.over.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(host.over.wait(), every_s)
                live, accuracy = host.live, rows[-1]["test_accuracy"] if rows else float("nan")
                banned = sum(one.conduct.banned is not None for one in live.clients.by_number.values())
                events = len(live.event_log.recorder)
                say(
                    f"{host.clock.now:.0f} s\tversion {live.server.version}\taccuracy {accuracy:.4f}\t"
                    f"{memory_mb():.0f} MB\t{events} events\t{live.trained} updates\t{banned} banned"
                )
            for process in made:
                process.terminate()
                await asyncio.get_running_loop().run_in_executor(None, process.join)

    tokens = {str(one): "t" for one in range(clients)}
    return await run_live(
        resolve(scenario, 0, SimulatedRuns()),
        Terms(),
        tokens,
        everybody,
        at_least=honest,
        known=False,
        progress=lambda row, _: rows.append(row) if row["test_accuracy"] == row["test_accuracy"] else None,
    )


def main() -> None:
    """Print a line a minute, then what became of the run, and write its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--liars", type=int, default=5)
    parser.add_argument("--silent", action="store_true", help="the liars stay away")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--buffer", type=int, default=10)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two lines")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    scenario = scenario_of(chosen.clients, chosen.seconds, chosen.buffer)

    def say(line: str) -> None:
        print(line, flush=True)
        if chosen.out is not None:
            with chosen.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    run = asyncio.run(soak(scenario, chosen.liars, chosen.silent, chosen.every, say))
    with TemporaryDirectory() as folder:
        gather(scenario, [run_of(scenario, run)]).save(Path(folder) / "run", holds=LIVE)
        whole = sorted(path.name for path in (Path(folder) / "run").iterdir())
    judged = [row["test_accuracy"] for row in run.rounds if row["test_accuracy"] == row["test_accuracy"]]
    last = judged[len(judged) // 2 :]
    say(f"ended because {run.stopped}; mean accuracy of the last {len(last)} versions judged {np.mean(last):.4f}")
    say(f"fates { ({name: number for name, number in run.fates.items() if number}) }")
    for note in run.notes:
        if "banned" in note:
            say(note[:160])
    say(f"tables: {', '.join(whole)}")


if __name__ == "__main__":
    main()
