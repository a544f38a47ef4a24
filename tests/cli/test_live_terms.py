"""`asyncfl live join` and a server that a test plays, frame by frame."""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.cli.live_server import _print_log
from asyncfl.live.connections import EndedError
from asyncfl.live.wire import Judge, Over, Refused, Task, encode
from asyncfl.scenario import Scenario
from tests.live.conftest import SMALL
from tests.live.test_joining import welcome

TEXT = Scenario.read(SMALL).to_yaml()
WELCOME = encode(welcome(TEXT, exposures=0))
EVIL = "\x1b]0;owned\x07\x1b[2J\nasyncfl: all is well\r\u202etxet\x9b31m"
Join = Callable[..., tuple[object, str, str]]


class Played:
    """Connection to a server that says these frames, whatever it hears."""

    peer = "played"

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = list(frames)

    async def send(self, frame: bytes) -> None:
        pass

    async def receive(self) -> bytes:
        if not self.frames:
            raise EndedError(f"the connection has ended: {EVIL}")
        return self.frames.pop(0)

    async def close(self, reason: str = "") -> None:
        pass

    def allow(self, frame_bytes: int) -> None:
        pass


@pytest.fixture(name="join")
def join_played(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Join:
    """Joins a server that says these frames on each connection."""
    monkeypatch.chdir(tmp_path)
    np.savez("ann.npz", x_train=np.zeros((25, 28, 28), np.uint8), y_train=np.arange(25) % 10)
    Path("ann.token").write_text("ann:" + "A" * 43)
    Path("scenario.yaml").write_text(TEXT)

    def join(frames: list[bytes], *more: str) -> tuple[object, str, str]:
        async def connect() -> Played:
            return Played(frames)

        monkeypatch.setattr("asyncfl.live.connections.to", lambda *_: connect)
        status, out, err = program("live", "join", "wss://h:1", "--data", "ann.npz", "--token", "ann.token", *more)
        return status, " ".join(out.split()), err

    return join


@pytest.mark.parametrize("agrees", [("--yes",), ("--scenario", "scenario.yaml")])
@pytest.mark.parametrize(
    "frames",
    [
        [encode(Refused(EVIL))],
        [WELCOME, encode(Over(EVIL))],
        [encode(welcome(TEXT, run=EVIL)), encode(Over("done"))],
        [encode(welcome(TEXT.replace("kind: mlp", 'kind: "\\e[2Jmlp"')))],
        [encode(welcome(TEXT + '"\\e[2J\\u202e": 1\n'))],
        [b"AF\x1b[2J" + bytes(30)],
        [encode(Refused("short"))[:-4]],
        [WELCOME, encode(Task(0, 0, 0), np.zeros((1, 5), np.float32))],
        [WELCOME, encode(Judge(0, 0), np.zeros((1, 3190), np.float32))],
    ],
)
def test_a_server_can_neither_steer_the_terminal_nor_cause_a_traceback(
    join: Join, frames: list[bytes], agrees: tuple[str, ...]
) -> None:
    status, out, err = join(frames, *agrees)
    assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e"} & set(out + err)
    assert (status, err.count("\n")) in ((0, 0), (2, 1)), err
    assert "Traceback" not in err


@pytest.mark.parametrize("answer", [True, False])
def test_without_a_scenario_the_user_is_shown_the_terms_and_asked(
    join: Join, monkeypatch: pytest.MonkeyPatch, answer: bool
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked: list[str] = []

    def confirm(text: str, abort: bool) -> None:
        asked.append(text)
        assert abort
        if not answer:
            raise KeyboardInterrupt

    monkeypatch.setattr("typer.confirm", confirm)
    status, out, _ = join([WELCOME, encode(Over("done"))])
    assert asked == ["Take part?"]
    assert "what the server asks for data 25 samples like mnist, which stay here" in out
    assert out.endswith("ann: the run is over, done") == answer
    assert status == (0 if answer else 130)


def test_a_client_that_cannot_ask_its_user_does_not_join(join: Join) -> None:
    assert join([WELCOME])[::2] == (
        2,
        "asyncfl: --scenario: is needed where there is no terminal to confirm the server's scenario at; or say --yes\n",
    )


def test_the_log_has_times_and_leaves_out_what_many_strangers_repeat(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1e9]
    monkeypatch.setattr("time.time", lambda: clock[0])
    log = logging.getLogger("asyncfl.live")
    for name in ("handlers", "propagate", "level"):
        monkeypatch.setattr(log, name, getattr(log, name))
    _print_log(quiet=False)
    for number in range(1000):
        log.warning("%s: refused", f"10.0.0.{number % 256}")
        log.info("client %s leaves", number)
    clock[0] += 11
    log.warning("%s: refused", "10.0.0.9")
    lines = capsys.readouterr().out.splitlines()
    assert all(re.match(r"2001-09-0\d \d\d:\d\d:\d\d ", line) for line in lines)
    assert sum("refused" in line for line in lines) == 11
    assert sum("leaves" in line for line in lines) == 1000, "clients are known, and their messages stay"
    assert lines[-1].endswith("10.0.0.9: refused (990 more before it were left out)")
