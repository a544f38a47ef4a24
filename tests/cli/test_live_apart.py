"""`asyncfl live keys | serve | join` as they are typed: real processes, TLS, a socket of this machine."""

from __future__ import annotations

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

from asyncfl.cli import main
from asyncfl.storage import Run

SCENARIO: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 3, "samples_per_client": 20, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {"lr": 0.1, "batch_size": 10, "epochs": 1, "gradient_clip": 1.0},
    "protocol": {"kind": "buffered", "rounds": 5, "buffer": 2, "dispatch": {"kind": "continuous"}},
    "privacy": {"kind": "local_gaussian", "epsilon": 50.0},
}
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a scenario, keys, and samples of two clients."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(SCENARIO))
    typed(monkeypatch, "live", "keys", "keys", "--host", "127.0.0.1", "--client", "ann", "--client", "bob")
    random = np.random.default_rng(3)
    for name in ("ann", "bob"):
        images = random.integers(0, 256, (25, 28, 28), dtype=np.uint8)
        np.savez(tmp_path / f"{name}.npz", x_train=images, y_train=np.arange(25) % 10)
    return tmp_path


def typed(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["asyncfl", *map(str, arguments)])
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0


@pytest.fixture
def start(place: Path) -> Iterator[Start]:
    """Starts the program in a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from asyncfl.cli import main; main()", "live", *map(str, arguments)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        started.append(
            subprocess.Popen(
                command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def served(start: Start, *more: object) -> tuple[subprocess.Popen[str], int]:
    """A server, and its port."""
    server = start(
        "serve", "scenario.yaml", "--keys", "keys", "--host", "127.0.0.1", "--port", 0, "--out", "run", *more
    )
    assert server.stdout is not None
    for line in server.stdout:
        if found := re.match(r"listening at 127.0.0.1:(\d+)", line):
            return server, int(found[1])
    raise AssertionError("it did not listen")


def joined(start: Start, port: int, name: str, *more: object) -> subprocess.Popen[str]:
    files = ("--data", f"{name}.npz", "--token", f"keys/clients/{name}.token", "--certificate", "keys/certificate.pem")
    return start("join", f"wss://127.0.0.1:{port}", *files, *more)


def said(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=60)
    return " ".join(out.split())


def test_a_server_and_two_clients_hold_a_federation_over_tls(
    start: Start, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server, port = served(start)
    (place / "eve.token").write_text("ann:" + "A" * 43)
    files = ("--data", "ann.npz", "--token", "eve.token", "--certificate", "keys/certificate.pem")
    assert typed(monkeypatch, "live", "join", f"wss://127.0.0.1:{port}", *files) == 2
    assert capsys.readouterr().err == "asyncfl: client 'ann' has no such token\n"
    ann = joined(start, port, "ann")
    bob = joined(start, port, "bob", "--scenario", "scenario.yaml", "--quiet")
    told, of_ann, of_bob = said(server), said(ann), said(bob)
    assert (server.returncode, ann.returncode, bob.returncode) == (0, 0, 0), (told, of_ann, of_bob)
    assert re.search(r"127.0.0.1:\d+: client 'ann' has no such token", told)
    assert "client ann is number " in told
    assert "with 25 samples" in told
    assert "version 5 " in told
    assert "run written" in told
    assert "ann: 25 samples in ann.npz, which stay on this machine" in of_ann
    assert "noise of local_gaussian; all that is random is drawn from a secret of this machine" in of_ann
    assert re.search(r"task \d+: version 0 trained, loss \d", of_ann)
    assert of_ann.endswith("ann: the run is over, all versions published")
    assert "task" not in of_bob
    run = Run.load(place / "run")
    assert run.summary["seeds"]["0"]["stopped"] == "all versions published"
    assert len(run.rounds) == 6
    assert sorted(run.clients["samples"]) == [20, 25, 25]


@pytest.mark.long
def test_ctrl_c_at_the_server_ends_it_with_whole_tables_and_at_a_client_only_that(start: Start, place: Path) -> None:
    server, port = served(start, "--set", "protocol.rounds=100000")
    ann, bob = joined(start, port, "ann"), joined(start, port, "bob")
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("version 2 "):
            break
    bob.send_signal(signal.SIGINT)
    assert said(bob).endswith("bob: left")
    assert bob.returncode == 0
    server.send_signal(signal.SIGINT)
    told, of_ann = said(server), said(ann)
    assert "client bob leaves" in told
    assert (server.returncode, ann.returncode) == (0, 0), (told, of_ann)
    assert of_ann.endswith("ann: the run is over, interrupted")
    run = Run.load(place / "run")
    assert run.summary["seeds"]["0"]["stopped"] == "interrupted"
    fates = run.summary["fates"]
    assert sum(fates.values()) == (run.events["kind"] == "dispatched").sum()
    assert fates["aggregated"] >= 4


@pytest.mark.long
def test_a_server_that_goes_away_ends_its_client_with_one_message(start: Start) -> None:
    server, port = served(start, "--at-least", 1, "--set", "protocol.rounds=100000")
    ann = joined(start, port, "ann", "--patience", 0.5, "--quiet")
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("client ann"):
            break
    server.kill()
    told = said(ann)
    assert ann.returncode == 2
    assert told.count("asyncfl: ") == 1
    assert "Connection refused; it was tried for 0.5 s" in told


def test_what_cannot_work_is_one_message_before_anything_begins(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    def refused(*arguments: object) -> str:
        assert typed(monkeypatch, "live", *arguments) == 2
        return " ".join("".join(capsys.readouterr()).split())

    files = ("--data", "ann.npz", "--token", "keys/clients/ann.token", "--certificate", "keys/certificate.pem")
    assert "must be wss://host:port, got 'ws://here:1'" in refused("join", "ws://here:1", *files)
    assert "keys/key.pem is no certificate" in refused("join", "wss://here:1", *files[:-1], "keys/key.pem")
    assert "cannot read none.token" in refused("join", "wss://here:1", *files[:2], "--token", "none.token")
    assert "scenario.yaml: cannot be read as an npz file" in refused(
        "join", "wss://here:1", "--data", "scenario.yaml", *files[2:]
    )
    serve = ("serve", "scenario.yaml", "--quiet")
    assert "none/clients has no tokens of clients" in refused(*serve, "--keys", "none")
    assert "was not made by this program" in refused(*serve, "--keys", "keys", "--out", place)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = refused(*serve, "--keys", "keys", "--host", "127.0.0.1", "--port", port)
        assert f"asyncfl: cannot listen at 127.0.0.1:{port}: " in told
    assert "must name the server as clients will call it" in refused("keys", "more", "--client", "ann")
    assert "must name each client once" in refused("keys", "more", "--client", "0", "--clients", "2")
    assert "must name the clients that need a token" in refused("keys", "more")
    assert not (place / "more").exists()
