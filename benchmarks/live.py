"""How many updates a second a live server takes in over loopback, with aggregation: clients answer with stored updates.

python benchmarks/live.py --clients 50 --seconds 10
"""

from __future__ import annotations

import argparse
import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from asyncfl.federation.prepare import Federation
from asyncfl.federation.resolve import resolve
from asyncfl.live.host import Host, Terms
from asyncfl.live.run import Round, hold, local_clients
from asyncfl.live.sockets import listening, to
from asyncfl.live.vocabulary import Update
from asyncfl.live.wire import encode, server_decoder
from asyncfl.live.work import Done, Workshop
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns


class Stored(Workshop):
    """Answers each task with the same update, at once."""

    def __init__(self, n_parameters: int) -> None:
        self.done = Done(np.zeros((1, n_parameters), np.float32), 0.5, None, 0.0, 0.0, None, False)

    def train(self, ticket: object, attacks: bool) -> Done:
        """The stored update."""
        return self.done


def codec_gb_per_s(n_parameters: int) -> float:
    """Gigabytes a second that one core encodes and decodes."""
    model = np.zeros((1, n_parameters), np.float32)
    update = Update(3, 0.5, None, 0, 0, None, False, ())
    decoder, rounds = server_decoder(n_parameters), 1000
    began = time.perf_counter()
    for _ in range(rounds):
        decoder.decode(encode(update, model))
    return rounds * model.nbytes / (time.perf_counter() - began) / 1e9


async def updates_per_s(clients: int, seconds: float, buffer: int) -> tuple[float, int]:
    """(updates a second, parameters of a model)."""
    scenario = Scenario.read(
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
    terms, tokens = Terms(), {str(client): "t" for client in range(clients)}

    def around(federation: Federation) -> Round:
        async def everybody(host: Host) -> None:
            async with listening(host.serve, "127.0.0.1", 0, 10_000_000) as port:
                with ThreadPoolExecutor(1) as executor:
                    connect = to(f"ws://127.0.0.1:{port}", 10_000_000)
                    streams = federation.resolved.streams
                    made = local_clients(federation, terms, tokens, connect, executor, streams)
                    stored = Stored(federation.learner.n_parameters)
                    for client in made:
                        client._prepare = lambda welcome, own=client._prepare: replace(own(welcome), workshop=stored)
                    await asyncio.gather(*[client.run() for client in made])

        return everybody

    run = await hold(resolve(scenario, 0, SimulatedRuns()), terms, tokens, around, secret=1)
    return run.trained / seconds, scenario.n_parameters


def main() -> None:
    """Print both numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--buffer", type=int, default=10)
    chosen = parser.parse_args()
    rate, n_parameters = asyncio.run(updates_per_s(chosen.clients, chosen.seconds, chosen.buffer))
    print(f"{rate:.0f} updates/s of {n_parameters:,} parameters; server and {chosen.clients} clients in one process")
    print(f"codec alone: {codec_gb_per_s(n_parameters):.1f} GB/s")


if __name__ == "__main__":
    main()
