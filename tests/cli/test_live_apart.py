"""`asyncfl live keys`, `serve` and `join` in processes of their own, over TLS on this machine."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from asyncfl.federation.storage import Run

SCENARIO: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 3, "samples_per_client": 20, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {"lr": 0.1, "batch_size": 10, "epochs": 1, "gradient_clip": 1.0},
    "protocol": {"kind": "buffered", "rounds": 5, "buffer": 2, "dispatch": {"kind": "continuous"}},
    "privacy": {"kind": "local_gaussian", "epsilon": 50.0},
}
Start = Callable[..., "subprocess.Popen[str]"]


def files(name: str, token: str = "") -> tuple[str, ...]:
    token = token or f"keys/clients/{name}.token"
    return "--data", f"{name}.npz", "--token", token, "--certificate", "keys/certificate.pem"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Any) -> Path:
    """A working folder with a scenario, keys, and samples of two clients."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(SCENARIO))
    program("live", "keys", "keys", "--host", "127.0.0.1", "--client", "ann", "--client", "bob")
    random = np.random.default_rng(3)
    for name in ("ann", "bob"):
        images = random.integers(0, 256, (25, 28, 28), dtype=np.uint8)
        np.savez(tmp_path / f"{name}.npz", x_train=images, y_train=np.arange(25) % 10)
    return tmp_path


@pytest.fixture
def start(place: Path) -> Iterator[Start]:
    """Starts `asyncfl live` in a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from asyncfl.cli import main; main()", "live", *map(str, arguments)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen(command, cwd=place, env=environment, **pipes))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def start_server(start: Start, *more: object) -> tuple[subprocess.Popen[str], int]:
    """A server, and its port."""
    server = start(
        "serve", "scenario.yaml", "--keys", "keys", "--host", "127.0.0.1", "--port", 0, "--out", "run", *more
    )
    return server, int(wait_for(server, r"listening at 127.0.0.1:(\d+)")[1])


def join(start: Start, port: int, name: str, *more: object) -> subprocess.Popen[str]:
    agreed = () if "--scenario" in more else ("--yes",)
    return start("join", f"wss://127.0.0.1:{port}", *files(name), *agreed, *more)


def wait_for(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    """Read the output until a line matches."""
    assert process.stdout is not None
    for line in process.stdout:
        # Lines of the log begin with date and time.
        if found := re.match(rf"(?:[-\d]+ [:\d]+ )?{pattern}", line):
            return found
    raise AssertionError(f"no line {pattern}")


def output(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=60)
    return " ".join(out.split())


def test_a_server_and_two_clients_run_a_federation_over_tls(start: Start, place: Path, program: Any) -> None:
    both = {**SCENARIO, "protocol": {"kind": "sync", "rounds": 5, "participants": 2}}
    (place / "scenario.yaml").write_text(yaml.safe_dump(both))
    server, port = start_server(start, "--at-least", 2)
    (place / "eve.token").write_text("ann:" + "A" * 43)
    refused = program("live", "join", f"wss://127.0.0.1:{port}", *files("ann", "eve.token"), "--yes")
    assert refused[::2] == (2, "asyncfl: client 'ann' has no such token\n")
    bob = join(start, port, "bob", "--scenario", "scenario.yaml", "--quiet")
    status, of_ann, err = program("live", "join", f"wss://127.0.0.1:{port}", *files("ann"), "--yes")
    of_server, of_bob, of_ann = output(server), output(bob), " ".join(of_ann.split())
    assert (server.returncode, status, err, bob.returncode) == (0, 0, "", 0), (of_server, of_ann, of_bob)
    assert re.search(r"127.0.0.1:\d+: client 'ann' has no such token", of_server)
    for text in ("client ann is number ", "with 25 samples", "version 5 ", "run written"):
        assert text in of_server
    assert "ann: 25 samples in ann.npz, which stay on this machine" in of_ann
    assert "noise of local_gaussian" in of_ann
    assert "uploads at most 5 privacy local_gaussian: gaussian noise of standard deviation" in of_ann
    assert of_server.count("client ann is number") == 1, "it is the same process that was shown the terms"
    assert re.search(r"task \d+: version \d trained, loss \d", of_ann)
    assert of_ann.endswith("ann: the run is over, all versions published")
    assert "task" not in of_bob
    run = Run.load(place / "run")
    assert run.summary["seeds"]["0"]["stopped"] == "all versions published"
    assert len(run.rounds) == 6
    assert sorted(run.clients["samples"]) == [20, 25, 25]


@pytest.mark.long
def test_ctrl_c_ends_the_server_with_whole_tables_and_a_client_alone(start: Start, place: Path) -> None:
    server, port = start_server(start, "--set", "protocol.rounds=100000")
    ann, bob = join(start, port, "ann"), join(start, port, "bob")
    wait_for(server, "version 2 ")
    bob.send_signal(signal.SIGINT)
    assert output(bob).endswith("bob: left")
    assert bob.returncode == 0
    server.send_signal(signal.SIGINT)
    of_server, of_ann = output(server), output(ann)
    assert "client bob leaves" in of_server
    assert (server.returncode, ann.returncode) == (130, 0), (of_server, of_ann)
    assert of_ann.endswith("ann: the run is over, interrupted")
    run = Run.load(place / "run")
    assert run.summary["seeds"]["0"]["stopped"] == "interrupted"
    fates = run.summary["fates"]
    assert sum(fates.values()) == (run.events["kind"] == "dispatched").sum()
    assert fates["aggregated"] >= 4


@pytest.mark.long
def test_a_killed_server_ends_its_client_with_one_message(start: Start) -> None:
    server, port = start_server(start, "--at-least", 1, "--set", "protocol.rounds=100000")
    ann = join(start, port, "ann", "--give-up-after", 0.5, "--quiet")
    wait_for(server, "client ann")
    server.kill()
    of_ann = output(ann)
    assert ann.returncode == 2
    assert of_ann.count("asyncfl: ") == 1
    assert "Connection refused; it was tried for 0.5 s" in of_ann


def test_wrong_settings_are_refused_before_anything_begins(place: Path, refused: Any) -> None:
    here = "wss://here:1"
    join = "live", "join", here, "--yes"
    assert refused("live", "join", here, *files("ann")) == (
        "asyncfl: --scenario: is needed where there is no terminal to confirm the server's scenario at; or say --yes"
    )
    assert "keys/key.pem is no certificate" in refused(*join, *files("ann")[:-1], "keys/key.pem")
    assert "cannot read none.token" in refused(*join, *files("ann", "none.token"))
    data = ("--data", "scenario.yaml", *files("ann")[2:])
    assert "scenario.yaml: must be an npz file with arrays x_train and y_train" in refused(*join, *data)
    serve = ("live", "serve", "scenario.yaml", "--quiet")
    assert "none/clients has no tokens of clients" in refused(*serve, "--keys", "none")
    assert "was not made by this program" in refused(*serve, "--keys", "keys", "--out", place)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refused(*serve, "--keys", "keys", "--host", "127.0.0.1", "--port", port)
        assert f"asyncfl: cannot listen at 127.0.0.1:{port}: " in message
    assert "must name the server as clients will call it" in refused("live", "keys", "more", "--client", "ann")
    assert not (place / "more").exists()
