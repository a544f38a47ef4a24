"""Does a live federation stand an hour in which some of its clients lie?

    python benchmarks/soak.py --minutes 60 --clients 50 --liars 5 --folder /tmp/soak

Two federations run at the same time: one of honest clients alone, and one with liars besides. Each has a server
(`asyncfl live serve`, in a process of its own, over TLS on the loopback) and clients in three processes, whose devices
are slowed down as the scenario's world says. Liars have tokens, and send: messages with random fields; bytes that are
no frames; ends of tasks at once; forged reports; updates in random directions with the largest norm that passes. Each
goes on when it is refused. Real MNIST where ASYNCFL_DATA_DIR has it, else its stand-in.

Printed are the memory of both servers over time, and what became of the runs; the exit status is 1 where tables are not
whole, the server's memory has grown by more than a fifth since the first tenth, or liars cost more than a point.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from asyncfl.base.errors import AsyncflError
from asyncfl.base.streams import Streams
from asyncfl.data.client_file import ClientFile
from asyncfl.federation.storage import Run
from asyncfl.live.client import LiveClient
from asyncfl.live.connections import Connection, to
from asyncfl.live.joining import Agreement, load_agreed, set_up
from asyncfl.live.keys import CERTIFICATE, client_context, make_keys, read_token
from asyncfl.live.wire import (
    WELCOME_BYTES,
    Gone,
    Hello,
    Noted,
    Ready,
    Scores,
    Spent,
    Task,
    Trace,
    Update,
    Welcome,
    client_decoder,
    encode,
)
from asyncfl.scenario import Scenario

SAMPLES = 200
PROCESSES = 3
CLIP_NORM = 1.0


def scenario_of(clients: int, minutes: float) -> dict[str, Any]:
    """A buffered federation whose clients take two seconds a task on average."""
    return {
        "data": {"dataset": "mnist", "clients": clients, "samples_per_client": SAMPLES},
        "model": {"kind": "mlp", "hidden": [32]},
        "training": {"lr": 0.05, "batch_size": 20, "epochs": 1, "gradient_clip": 1.0},
        "protocol": {
            "kind": "buffered",
            "rounds": 1_000_000,
            "buffer": 10,
            "dispatch": {"kind": "continuous"},
            "time_limit_s": 60 * minutes,
        },
        "world": {"device": {"kind": "lognormal", "median_s_per_sample": 0.008, "sigma": 0.5}},
        "privacy": {"kind": "local_gaussian", "epsilon": 200.0, "clip_norm": CLIP_NORM, "delta": 1e-5},
        "evaluation": {"train_every": 0, "test_every": 20},
    }


# --- honest clients ---------------------------------------------------------------------------------------------------


def honest(folder: Path, port: int, names: list[str]) -> None:
    """Take part as these clients until the run is over."""
    asyncio.run(_take_part(folder, port, names))


async def _take_part(folder: Path, port: int, names: list[str]) -> None:
    agreed = Agreement(load_agreed(folder / "scenario.yaml"), shape=True)
    connect = to(f"wss://127.0.0.1:{port}", WELCOME_BYTES, client_context(folder / "keys" / CERTIFICATE))
    with ThreadPoolExecutor(1, "training") as executor:
        clients = []
        for name in names:
            own = ClientFile(folder / "data" / f"{name}.npz")
            prepare = partial(set_up, own=own, agreed=agreed, executor=executor, tell=lambda told: None)
            _, token = read_token(folder / "keys" / "clients" / f"{name}.token")
            clients.append(LiveClient(name, token, connect, prepare, samples=len(own)))
        await asyncio.gather(*(client.run() for client in clients))


# --- liars ------------------------------------------------------------------------------------------------------------


class Liar:
    """A client with a token that lies in one way."""

    def __init__(self, name: str, token: str, lie: str, scenario: Scenario) -> None:
        self.name, self.token, self.lie = name, token, lie
        self._size = scenario.n_parameters
        self._random = random.Random(name)
        self._noise = np.random.default_rng(int(name))
        self.sent = 0

    async def run(self, connect: Callable[[], Any]) -> None:
        """Lie until it is cancelled; after each end of a connection again."""
        while True:
            with suppress(AsyncflError, OSError, TimeoutError):
                connection: Connection = await connect()
                try:
                    await asyncio.wait_for(self._converse(connection), 300)
                finally:
                    await connection.close()
            await asyncio.sleep(self._random.uniform(0.05, 2.0))

    async def _converse(self, connection: Connection) -> None:
        decoder = client_decoder(self._size)
        connection.allow(decoder.frame_bytes)
        samples = 2**53 if self.lie == "fields" and self._random.random() < 0.1 else SAMPLES
        await connection.send(encode(Hello(self.name, self.token, samples, (), secrets.token_hex(8))))
        number = 0
        while True:
            if self.lie == "bytes":
                for _ in range(self._random.randrange(50)):
                    await connection.send(self._random.randbytes(self._random.randrange(2000)))
            message, models = decoder.decode(await connection.receive())
            if isinstance(message, Welcome):
                number += 1
                await connection.send(encode(Ready(True, None, number=number)))
            if isinstance(message, Task):
                for lie, model in self._lies(message, models):
                    number += 1
                    self.sent += 1
                    await connection.send(encode(lie(number=number), model))

    def _lies(self, task: Task, models: np.ndarray) -> list[tuple[Callable[..., Any], np.ndarray | None]]:
        pick, at = self._random, task.task
        report = tuple(self._noted() for _ in range(pick.randrange(30)))
        update = partial(Update, at, None, 0.0, None, ())
        match self.lie:
            case "gone":
                return [(partial(Gone, at, "lost_up", ()), None)] * 20
            case "reports":
                made = [(partial(Trace, at, report), None)] * pick.randrange(5)
                return [*made, (partial(Gone, at, "lost_up", report), None)]
            case "norm":
                move = self._noise.normal(size=self._size)
                return [(update, (models + CLIP_NORM * move / np.linalg.norm(move)).astype(np.float32))]
        kinds: list[Any] = [
            (partial(Gone, pick.randrange(-(2**30) % 2**50), pick.choice(["lost_up", "aggregated", ""]), report), None),
            (partial(Scores, pick.randrange(100), (1e308, -5.0), report), None),
            (partial(Spent, "\x1b[2J all of it" * 50), None),
            (partial(Ready, True, None), None),
            (partial(Update, at, 1e308, -1.0, 7.0, report, epochs=2**40), models),
            (update, np.full_like(models, pick.choice([np.nan, 3e38, -np.inf, 1e4]))),
            (update, models[:, : pick.randrange(1, self._size)]),
        ]
        return [pick.choice(kinds) for _ in range(pick.randrange(1, 4))]

    def _noted(self) -> Noted:
        pick = self._random
        kinds = [
            "downloaded",
            "trained",
            "upload_started",
            "uploaded",
            "retransmitted",
            "sent",
            "overheard",
            "published",
        ]
        size, attempt = pick.choice([-1, 0, 10**6, 2**53]), pick.choice([-1, 1, 40_000])
        return Noted(pick.choice([0.0, 1.0, 1e12]), pick.choice(kinds), size, attempt, "up" * pick.randrange(200))


LIES = ("fields", "bytes", "gone", "reports", "norm")


def lying(folder: Path, port: int, names: list[str]) -> None:
    """Lie as these clients until this process is ended."""
    asyncio.run(_lie(folder, port, names))


async def _lie(folder: Path, port: int, names: list[str]) -> None:
    scenario = load_agreed(folder / "scenario.yaml")
    connect = to(f"wss://127.0.0.1:{port}", WELCOME_BYTES, client_context(folder / "keys" / CERTIFICATE))
    tokens = [read_token(folder / "keys" / "clients" / f"{name}.token")[1] for name in names]
    liars = [
        Liar(name, token, LIES[place % 5], scenario)
        for place, (name, token) in enumerate(zip(names, tokens, strict=True))
    ]
    await asyncio.gather(*(liar.run(connect) for liar in liars))


# --- both federations -------------------------------------------------------------------------------------------------


class Federation:
    """A server and its clients in processes of their own."""

    def __init__(self, folder: Path, scenario: dict[str, Any], honest_names: list[str], liars: list[str]) -> None:
        self.folder, self.memory = folder, list[tuple[float, float]]()
        (folder / "data").mkdir(parents=True)
        (folder / "scenario.yaml").write_text(yaml.safe_dump(scenario))
        make_keys(folder / "keys", ["127.0.0.1"], [*honest_names, *liars], 1)
        data = Scenario.read(scenario).data.build(Streams(0))
        low, high = data.images.min(), data.images.max()
        pixels = np.rint(255 * (data.images[:, 0] - low) / (high - low)).astype(np.uint8)
        for name in honest_names:
            held = slice(*data.offsets[int(name) :][:2])
            np.savez(folder / "data" / f"{name}.npz", x_train=pixels[held], y_train=data.labels[held])
        command = "from asyncfl.cli import main; main()"
        words = ["live", "serve", "scenario.yaml", "--keys", "keys", "--host", "127.0.0.1", "--port", "0", "--shape"]
        words += ["--out", "run", "--quiet", "--at-least", str(len(honest_names))]
        self.log = (folder / "server.log").open("w")
        self.server = subprocess.Popen(
            [sys.executable, "-c", command, *words], cwd=folder, stdout=self.log, stderr=subprocess.STDOUT
        )
        port = self._port()
        processes = multiprocessing.get_context("spawn")
        parts = [honest_names[place::PROCESSES] for place in range(PROCESSES)]
        self.clients = [processes.Process(target=honest, args=(folder, port, names), daemon=True) for names in parts]
        self.clients += [processes.Process(target=lying, args=(folder, port, liars), daemon=True)] if liars else []
        for process in self.clients:
            process.start()

    def _port(self) -> int:
        while True:
            for line in (self.folder / "server.log").read_text().splitlines():
                if line.startswith("listening at"):
                    return int(line.split(":")[1].split(";")[0])
            if self.server.poll() is not None:
                raise SystemExit((self.folder / "server.log").read_text())
            time.sleep(0.1)

    def measure(self, minutes: float) -> None:
        """Note how much memory the server has."""
        with suppress(OSError, IndexError):
            text = Path(f"/proc/{self.server.pid}/status").read_text()
            self.memory.append((minutes, int(text.split("VmRSS:")[1].split()[0]) / 1024))

    def end(self) -> tuple[int, Run]:
        """Wait for the server's end; return its exit status and its run."""
        status = self.server.wait(600)
        for process in self.clients:
            process.kill()
            process.join()
        self.log.close()
        return status, Run.load(self.folder / "run")


def faults_of(status: int, run: Run) -> list[str]:
    """What is not whole in a run."""
    events = run.events
    dispatched, aggregated = ((events["kind"] == kind) for kind in ("dispatched", "aggregated"))
    checks = {
        f"exit status {status}": status == 0,
        "versions are missing": run.rounds["version"].to_list() == list(range(len(run.rounds))),
        "events are missing": events["seq"].to_list() == list(range(len(events))),
        "fates do not add up": sum(run.summary["fates"].values()) == dispatched.sum(),
        "an update counts twice": events[aggregated]["task"].is_unique,
    }
    return [text for text, holds in checks.items() if not holds]


def main() -> int:
    """Run both federations, and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=50, help="with liars")
    parser.add_argument("--liars", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="new folder for both runs; default: a temporary one")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="soak-"))
    names = [str(number) for number in range(options.clients)]
    kept = len(names) - options.liars
    scenario = scenario_of(len(names), options.minutes)
    federations = {
        "honest": Federation(folder / "honest", scenario, names[:kept], []),
        "liars": Federation(folder / "liars", scenario, names[:kept], names[kept:]),
    }
    began = time.monotonic()
    while any(one.server.poll() is None for one in federations.values()):
        for one in federations.values():
            one.measure((time.monotonic() - began) / 60)
        time.sleep(min(10.0, options.minutes))
    bad, accuracy = [], {}
    for name, one in federations.items():
        status, run = one.end()
        tested = run.rounds["test_accuracy"].dropna()
        accuracy[name] = 100 * float(tested.tail(10).mean())
        fates = ", ".join(f"{number} {fate}" for fate, number in run.summary["fates"].items() if number)
        print(f"{name}: {run.rounds['version'].max()} versions, accuracy {accuracy[name]:.1f} % (last ten); {fates}")
        ran = [look for look in one.memory if look[0] < options.minutes]
        at = [ran[round(share * (len(ran) - 1))] for share in (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)]
        print("  memory of the server: " + ", ".join(f"{mib:.0f} MiB at {minutes:.0f} min" for minutes, mib in at))
        print(f"  while its tables were made: at most {max(mib for _, mib in one.memory):.0f} MiB")
        log = (one.folder / "server.log").read_text()
        print(f"  log of the server: {len(log.splitlines())} lines, {log.count('banned')} of bans")
        bad += [f"{name}: {fault}" for fault in faults_of(status, run)]
        if at[-1][1] > 1.2 * at[1][1]:
            bad.append(f"{name}: memory grew from {at[1][1]:.0f} to {at[-1][1]:.0f} MiB")
    if (cost := accuracy["honest"] - accuracy["liars"]) > 1:
        bad.append(f"liars cost {cost:.1f} points of accuracy")
    print("; ".join(bad) if bad else f"whole tables, flat memory, {cost:+.1f} points by liars ({folder})")
    return int(bool(bad))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    raise SystemExit(main())
