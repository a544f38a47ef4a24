"""A server and its clients in processes of their own: killed and started again, stopped for a while, on a full disk."""

import multiprocessing
import os
import resource
import signal
import socket
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml

from asyncfl.federation.storage import Run
from asyncfl.live.client_memory import ClientMemory

KILLS = 15
NAMES = ("ann", "bob", "cid", "dan")
SCENARIO: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 4, "samples_per_client": 20, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {"lr": 0.1, "batch_size": 10, "epochs": 1, "gradient_clip": 1.0},
    "protocol": {"kind": "buffered", "rounds": 100_000, "buffer": 2, "dispatch": {"kind": "continuous"}},
    "world": {"device": {"kind": "fixed", "s_per_sample": 0.005}},
    "privacy": {"kind": "local_gaussian", "epsilon": 50.0, "stop_at": {"epsilon": 100_000.0, "accountant": "rdp"}},
    "evaluation": {"record": "parameters"},
}
SHORT: dict[str, Any] = {"protocol": {**SCENARIO["protocol"], "rounds": 30}, "evaluation": {}}
PROCESSES = multiprocessing.get_context("forkserver")


def call(folder: Path, log: str, arguments: list[str], file_bytes: int) -> None:
    """Run a command, as a process of its own that can write no file longer than `file_bytes`."""
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout = sys.stderr = Path(log).open("a", buffering=1)  # noqa: SIM115
    from asyncfl.cli import main

    sys.argv = ["asyncfl", "live", *arguments]
    main()


class Federation:
    """Processes of a server and its clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.running: dict[str, BaseProcess] = {}

    def start(self, name: str, *more: str, file_bytes: int = resource.RLIM_INFINITY) -> None:
        if name == "server":
            place = [
                "--keys",
                "keys",
                "--host",
                "127.0.0.1",
                "--port",
                str(self.port),
                "--out",
                "run",
                "--at-least",
                "4",
            ]
            arguments = ["serve", "scenario.yaml", *place, "--shape", *more]
        else:
            files = ["--data", f"{name}.npz", "--token", f"keys/clients/{name}.token", "--certificate"]
            where = [f"wss://127.0.0.1:{self.port}", *files, "keys/certificate.pem"]
            arguments = ["join", *where, "--scenario", "scenario.yaml", "--shape"]
        log = f"{name}.log"
        self.running[name] = PROCESSES.Process(target=call, args=(self.folder, log, arguments, file_bytes), daemon=True)
        self.running[name].start()

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.running[name].join()

    def signal(self, name: str, number: int) -> None:
        process = self.running[name].pid
        assert process is not None
        os.kill(process, number)

    def text(self, name: str) -> str:
        log = self.folder / f"{name}.log"
        return log.read_text() if log.exists() else ""


@pytest.fixture
def federation(tmp_path: Path, program: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump({**SCENARIO, **request.param}))
    program("live", "keys", "keys", "--host", "127.0.0.1", *(word for name in NAMES for word in ("--client", name)))
    random = np.random.default_rng(3)
    for name in NAMES:
        images = random.integers(0, 256, (20, 28, 28), dtype=np.uint8)
        np.savez(tmp_path / f"{name}.npz", x_train=images, y_train=np.arange(20) % 10)
    PROCESSES.set_forkserver_preload(["asyncfl.cli.live", "asyncfl.live.run", "asyncfl.api"])
    made = Federation(tmp_path)
    yield made
    for process in made.running.values():
        process.kill()
        process.join()


def wait_until(condition: Any, what: str, seconds: float = 90.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def whole_run(federation: Federation, number: int | None, status: int) -> Run:
    """The run at its end, which is checked. `number`: signal that ends the server; None: it ends by itself."""
    if number is not None:
        federation.signal("server", number)
    server = federation.running["server"]
    server.join(60)
    assert server.exitcode == status, federation.text("server")
    run = Run.load(federation.folder / "run")
    rows, events = run.rounds, run.events
    assert rows["version"].to_list() == list(range(len(rows)))
    assert (rows["time_s"].diff().dropna() > 0).all()
    assert events["seq"].to_list() == list(range(len(events)))
    assert sum(run.summary["fates"].values()) == (events["kind"] == "dispatched").sum()
    aggregated = events[events["kind"] == "aggregated"]["task"]
    assert aggregated.is_unique
    assert len(aggregated) == run.summary["fates"]["aggregated"]
    return run


@pytest.mark.long
@pytest.mark.parametrize(
    "federation", [{}, {"model": {**SCENARIO["model"], "personal": ["3.*"]}}], indirect=True, ids=["whole", "personal"]
)
def test_server_and_clients_are_killed_at_random_moments(federation: Federation, program: Any) -> None:
    random, killed = np.random.default_rng(11), dict.fromkeys(("server", *NAMES), 0)
    for name in killed:
        federation.start(name)
    wait_until(lambda: "version 3 " in federation.text("server"), "the run begins", 60)
    for _ in range(KILLS):
        wait_until(lambda: went_on(federation) == killed["server"], "the server goes on")
        time.sleep(random.uniform(0.0, 2.0))
        name = str(random.choice(["server", random.choice(NAMES)]))
        assert federation.running[name].is_alive(), federation.text(name)
        federation.kill(name)
        killed[name] += 1
        time.sleep(random.choice([0.0, random.uniform(0.0, 1.0)]))
        federation.start(name)
    assert killed["server"] > 3
    versions = federation.text("server").count("\nversion ")
    wait_until(lambda: federation.text("server").count("\nversion ") > versions + 20, "new versions")
    run = whole_run(federation, signal.SIGINT, 130)
    events = run.events
    note = f"live: the server was started again {killed['server']} times"
    assert any(one.startswith(note) for one in run.summary["notes"]), run.summary["notes"]
    assert not any("began at zero" in one for one in run.summary["notes"])
    # Its client knows of every upload that the ledger counts, and of those that were sent in vain.
    numbers = {found: name for name in NAMES for found in [number_of(federation.text("server"), name)]}
    uploads = events[events["kind"] == "uploaded"].groupby("client").size()
    for number, name in numbers.items():
        content = (federation.folder / f"keys/clients/{name}.memory").read_bytes()
        memory = msgspec.msgpack.decode(content, type=ClientMemory)
        assert memory.uploads >= uploads[number] > 20
        assert (memory.personal is None) == (not run.scenario.model.personal)
    status, _, why = program("replay", federation.folder / "run")
    assert status == 0 or (run.scenario.model.personal and "cannot be replayed" in why)


def went_on(federation: Federation) -> int:
    return federation.text("server").count("the run goes on after version")


def number_of(log: str, name: str) -> int:
    return int(log.split(f"client {name} is number ")[1].split(",")[0])


@pytest.mark.long
@pytest.mark.parametrize("federation", [SHORT], indirect=True, ids=[""])
def test_a_disk_of_64_kilobytes_costs_no_table(federation: Federation) -> None:
    federation.start("server", file_bytes=65_536)
    for name in NAMES:
        federation.start(name)
    run = whole_run(federation, None, 0)
    assert len(run.rounds) == 31
    text = " ".join(federation.text("server").split())
    assert "the run cannot be written anywhere; it goes on in memory" in text
    assert "File too large" in text
    for name in NAMES:
        federation.running[name].join(30)
        assert federation.running[name].exitcode == 0, federation.text(name)


@pytest.mark.long
@pytest.mark.parametrize("federation", [{}], indirect=True, ids=[""])
@pytest.mark.parametrize("name", ["server", "ann"])
def test_half_a_minute_in_which_one_process_stands_still(federation: Federation, name: str) -> None:
    for one in ("server", *NAMES):
        federation.start(one)
    wait_until(lambda: "version 3 " in federation.text("server"), "the run begins")
    federation.signal(name, signal.SIGSTOP)
    time.sleep(30)
    versions = federation.text("server").count("\nversion ")
    federation.signal(name, signal.SIGCONT)
    wait_until(lambda: federation.text("server").count("\nversion ") > versions + 20, "new versions")
    run = whole_run(federation, signal.SIGINT, 130)
    lost = [line for line in federation.text("server").splitlines() if "no sign of life" in line]
    assert len(lost) == (name == "ann")
    number = number_of(federation.text("server"), name) if name != "server" else 0
    last = run.events[run.events["kind"] == "uploaded"].groupby("client")["time_s"].max()
    assert last[number] > run.rounds["time_s"].iloc[versions], "it takes part again"
