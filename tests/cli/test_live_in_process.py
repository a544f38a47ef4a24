"""What `asyncfl live` and Flower's ServerApp hand on and print, with nobody at the other end of a wire."""

from __future__ import annotations

import asyncio
import io
import logging
import math
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.cli import live_flower, live_here
from asyncfl.cli.live_output import print_log, print_version
from asyncfl.federation.resolve import resolve
from asyncfl.live import client, joining, keys, sockets
from asyncfl.live import run as live_run
from asyncfl.live.client import LEFT
from asyncfl.live.flower import held as flower_held
from asyncfl.live.interrupts import Interrupts
from asyncfl.live.terms import Terms
from asyncfl.live.wire import server_decoder
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from asyncfl.storage import Run

FAST = Terms(shape=True, speedup=100.0)


class Wires:
    """Stands where a server listens and its federation is held."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held: dict[str, Any] = {}
        self.listened: list[Any] = []
        real = live_run.hold

        async def hold(resolved: Any, terms: Any, tokens: Any, around: Any, **how: Any) -> Any:
            self.held = {"terms": terms, "tokens": tokens, **how}
            host = SimpleNamespace(serve="serve", over=asyncio.Event(), end=lambda why: None)
            host.over.set()
            await around(SimpleNamespace(learner=SimpleNamespace(n_parameters=7)))(host)
            monkeypatch.setattr(live_run, "hold", real)
            with Interrupts() as interrupts:
                return await live_here._run_seed(resolved.scenario, resolved.seed, FAST, 2, True, interrupts)

        @asynccontextmanager
        async def listening(*place: Any) -> AsyncIterator[int]:
            self.listened = list(place)
            yield 4711

        monkeypatch.setattr(live_run, "hold", hold)
        monkeypatch.setattr(sockets, "listening", listening)
        monkeypatch.setattr(keys, "read_tokens", lambda folder: {"ann": "a" * 9, "bob": "b" * 9})
        monkeypatch.setattr(keys, "server_context", lambda folder: "tls")


@pytest.mark.parametrize(
    ("options", "wanted", "printed"),
    [
        (["--set", "protocol.participants=2"], 2, True),
        (["--at-least", 1, "--quiet"], 1, False),
        (["--at-least", 77, "--shape", "--speedup", 3], 5, True),
    ],
)
def test_a_server_waits_for_whom_it_needs_and_writes_the_run(
    file: Path, program: Any, monkeypatch: pytest.MonkeyPatch, options: list[Any], wanted: int, printed: bool
) -> None:
    wires = Wires(monkeypatch)
    status, out, err = program(
        "live", "serve", file, "--keys", "keys", "--host", "h", "--port", 9, "--out", "run", *options
    )
    assert (status, err) == (0, "")
    first, second, *_, last = out.splitlines()
    assert first == "test data: mnist (embedded)"
    assert second == f"listening at h:4711; the run begins with {wanted} of 2 clients"
    assert last == "run written"
    longest = server_decoder(7).limits.frame_bytes
    assert wires.listened == ["serve", "h", 9, longest, "tls"]
    assert wires.held["terms"] == (Terms(shape=True, speedup=3.0) if "--shape" in options else Terms())
    assert wires.held["tokens"] == {"ann": "a" * 9, "bob": "b" * 9}
    assert (wires.held["at_least"], wires.held["known"]) == (wanted, False)
    assert (wires.held["progress"] is not None) is printed
    assert len(Run.load(Path("run")).rounds) == 4
    assert program("live", "serve", file, "--keys", "keys", "--out", "run")[0] == 2, "it holds a run"


class Client:
    """A client that is over at once."""

    over, ended_well = "all versions published", True
    last: Any = None

    def __init__(self, name: str, token: str, connect: Any, let_in: Any, **how: Any) -> None:
        self.given = {"name": name, "token": token, "connect": connect, **how}
        self.let_in = let_in
        Client.last = self

    async def run(self) -> None:
        self.made = self.let_in("welcome")

    async def leave(self) -> None:
        raise AssertionError("nobody asked for it")


@pytest.mark.parametrize(
    ("over", "well", "said"),
    [
        ("all versions published", True, "ann: the run is over, all versions published"),
        (LEFT, True, "ann: left"),
        ("the server is gone", False, "asyncfl: the server is gone"),
    ],
)
def test_a_client_tells_what_it_holds_and_how_it_ended(
    file: Path, program: Any, monkeypatch: pytest.MonkeyPatch, over: str, well: bool, said: str
) -> None:
    np.savez("ann.npz", x_train=np.zeros((25, 28, 28), np.uint8), y_train=np.arange(25) % 10)
    monkeypatch.setattr(client, "LiveClient", Client)
    monkeypatch.setattr(Client, "over", over)
    monkeypatch.setattr(Client, "ended_well", well)
    monkeypatch.setattr(keys, "read_token", lambda path: ("ann", f"token in {path}"))
    monkeypatch.setattr(keys, "client_context", lambda certificate: ("tls", certificate))
    monkeypatch.setattr(sockets, "to", lambda *place: place)
    monkeypatch.setattr(joining.Joining, "craft", lambda self, *given: (self, given))
    words = ("live", "join", "wss://h:8765", "--data", "ann.npz", "--token", "t")
    status, out, err = program(*words)
    assert status == (0 if well else 2)
    assert (out + err).splitlines() == ["ann: 25 samples in ann.npz, which stay on this machine", said]
    given = Client.last.given
    assert given.pop("tell") is not None
    assert given == {
        "name": "ann", "token": "token in t", "connect": ("wss://h:8765", 2**30, ("tls", None)), "samples": 25,
        "patience_s": 60.0,
    }  # fmt: skip
    mine, (welcome, executor, tell) = Client.last.made
    assert (len(mine.own), mine.agreed, welcome, tell is not None) == (25, None, "welcome", True)
    assert executor._max_workers == 1
    program(*words, "--quiet", "--patience", 3, "--scenario", file, "--certificate", "c")
    assert (Client.last.given["tell"], Client.last.given["patience_s"]) == (None, 3.0)
    assert Client.last.given["connect"][2] == ("tls", Path("c"))
    assert Client.last.made[0].agreed is not None


def test_keys_are_made_for_all_that_are_named(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(keys, "make_keys", lambda *given: made.append(given) or [Path("k/one")])
    for words in (("--client", "ann", "--clients", 2), ("--host", "h", "--host", "i", "--days", 9)):
        status, out, _ = program("live", "keys", "k", *words)
        assert (status, out.splitlines()[0]) == (0, "k/one written")
        assert f"its own token and {Path('k') / keys.CERTIFICATE}" in " ".join(out.split())
    assert made == [(Path("k"), [], ["ann", "0", "1"], 365), (Path("k"), ["h", "i"], [], 9)]
    for words, fault in (
        (("--client", "0", "--clients", 1), "must name each client once"),
        ((), "must name the clients that need a token"),
    ):
        assert program("live", "keys", "k", *words) == (2, "", f"asyncfl: --client: {fault}\n")
    assert len(made) == 2


@pytest.mark.parametrize("url", ["ws://h:1", "wss://h", "wss://h:123456", "wss://h:1/x", "wss://a b:1", "x wss://h:1"])
def test_a_client_is_told_what_a_server_is_called(program: Any, url: str) -> None:
    status, _, err = program("live", "join", url, "--data", "d", "--token", "t")
    assert status == 2
    assert err == f"asyncfl: the server's address must be wss://host:port, got {url!r}\n"


@pytest.mark.parametrize(("stopped", "seeds"), [("", [0, 1]), ("GONE for good", [0])])
def test_flowers_server_holds_all_seeds_one_after_another_while_there_is_a_grid(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, stopped: str, seeds: list[int]
) -> None:
    scenario = Scenario.read({**tiny, "seeds": 2})
    mails: list[Any] = []

    async def held(resolved: Any, mail: Any, *, progress: Any, interrupts: Any) -> Any:
        assert resolved.seed == resolve(scenario, len(mails), SimulatedRuns()).seed
        mails.append(mail)
        run = await live_here._run_seed(scenario, resolved.seed, FAST, 2, True, interrupts)
        progress(ROW, 3)
        if stopped:
            run.stopped = stopped
        return run

    records = SimpleNamespace(
        GridMail=lambda *given: given, Shapes=SimpleNamespace(flat=lambda number: ("flat", number))
    )
    monkeypatch.setitem(sys.modules, "asyncfl.live.flower.records", records)
    monkeypatch.setattr(flower_held, "held", held)
    monkeypatch.setattr("asyncfl.live.flower.client.scenario_of", lambda text: scenario if text == "it" else None)
    monkeypatch.setattr("asyncfl.live.flower.post.GRID_ENDED", "GONE")
    live_flower.serve("grid", {"scenario": "it", "results": str(tmp_path / "out"), "timeout-s": "90"})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["data: mnist (embedded)", "waiting for 5 SuperNodes with partition-id=0..4"]
    assert mails == [("grid", ("flat", scenario.n_parameters), 90.0)] * len(seeds)
    assert [line.split("  ")[0] for line in lines if line.startswith("version ")] == ["version 9"] * len(seeds)
    (folder,) = (tmp_path / "out").iterdir()
    assert lines[-1] == f"{folder} written"
    assert list(Run.load(folder).summary["seeds"]) == list(map(str, seeds))


ROW = {"version": 9, "time_s": 1.0, "test_accuracy": 0.5, "staleness_mean": 0.0, "bytes_up": 1, "bytes_down": 1}


@pytest.mark.parametrize(
    ("quiet", "said"), [(False, ["somebody came", "something went wrong"]), (True, ["something went wrong"])]
)
def test_what_a_server_logs_is_printed_once_among_all_else(quiet: bool, said: list[str], capsys: Any) -> None:
    log, above = logging.getLogger("asyncfl.live"), logging.getLogger("asyncfl")
    before, heard = (log.handlers, log.propagate, log.level, above.handlers), io.StringIO()
    above.handlers = [logging.StreamHandler(heard)]
    try:
        print_log(quiet)
        print_log(quiet)
        logging.getLogger("asyncfl.live.host").info("somebody came")
        log.warning("something went %s", "wrong")
    finally:
        log.handlers, log.propagate, above.handlers = before[0], before[1], before[3]
        log.setLevel(before[2])
    assert capsys.readouterr().out.splitlines() == [*([] if quiet else ["somebody came"]), "something went wrong"]
    assert heard.getvalue() == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "accuracy 0.500  staleness 0.0 versions"),
        ({"test_accuracy": math.nan, "staleness_mean": math.nan}, "accuracy -  staleness -"),
        ({"test_r2": 0.25, "staleness_mean": 1.26}, "R² 0.250  staleness 1.3 versions"),
    ],
)
def test_a_version_is_told_in_a_line(changes: dict[str, float], said: str, capsys: Any) -> None:
    print_version({**ROW, **changes}, 3)
    told = " ".join(capsys.readouterr().out.split())
    assert told == " ".join(f"version 9  1 s  {said}  3 in flight  1 B up  1 B down".split())
