"""What commands print about two small runs, at 80 columns, against a written list.

`python tests/cli/test_written.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from asyncfl.api import execute
from asyncfl.cli import main
from asyncfl.scenario import Scenario
from tests.written import compare, write

LIST = Path(__file__).with_name("written.json")
TAP = {"uplink": True, "downlink": True, "packet_loss": 0.1}
BASE: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 5, "samples_per_client": 20, "source": "embedded", "test_samples": 500},
    "model": {"kind": "mlp", "hidden": [8]},
    "training": {"lr": 0.05, "batch_size": 10},
    "protocol": {"kind": "buffered", "rounds": 4, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}},
    "world": {
        "device": {"kind": "lognormal", "median_s_per_sample": 0.02, "sigma": 0.5},
        "uplink": {"latency_s": 0.05, "bandwidth_bps": 1e6, "loss": {"kind": "independent", "probability": 0.02}},
        "tap": TAP,
        "dropout": 0.2,
    },
    "privacy": {"kind": "nbafl", "epsilon": 500, "exposures": 1, "clip_norm": 1.0},
    "threats": {"attackers": 1, "attack": {"kind": "sign_flip"}},
    "defence": {"detector": {"kind": "kardam"}},
    "evaluation": {"keep": "last", "record": "digests"},
    "seeds": 2,
}
COMMANDS = """
trace one --limit 12
trace one --count
trace one --kind lost --kind dropped_out --seed 1
trace one --client 2 --since 0.5 --until 3
trace one --version 1 --seed 0
trace one --task 3 --seed 0
trace one --follow 0 --seed 0
trace one --follow 5 --seed 1
trace one --follow 999 --seed 1
trace one --tabulate client
trace one --tabulate version
trace one --tabulate base_version
trace one --tabulate seed
trace one --tabulate staleness
trace one --compare other
trace one --compare one
trace one --compare other --json
trace one --compare other --seed 1
trace one --limit 0 --kind dispatched --seed 0
trace one --limit 2 --json
trace one --count --json
trace one --follow 0 --seed 0 --json
trace one --tabulate client --json --limit 1
trace one --tabulate version --seed 1 --client 1 --until 2
trace one --seed 7
trace one --until -1
trace one --kind nonsense --kind lost
trace one --count --tabulate client
trace one --count --out x
trace one --out x
trace one --export perfetto
trace one --export perfetto --out t.json --client 1
trace one --follow 0 --client 1 --task 3
compare one other
compare one one other
compare one one --json
replay one
replay one --seed 1 --train
export one model.pt
export one model.txt
audit one --clients 2 --twins 3
calibrate one other --out world.yaml
view one --out one.html
view one other --out both.html
timeline scenario.yaml
timeline scenario.yaml --json --set seeds=1 --set world.dropout=0
timeline scenario.yaml --set world.dropout=0.9 --set 'protocol={kind: sync, rounds: 3, participants: 1}' --set seeds=1
timeline scenario.yaml --set protocol.rounds=0
run scenario.yaml --out again --set protocol.rounds=2
run scenario.yaml --out one
bounds
bounds --participants 10
privacy nbafl
privacy nbafl --participants 20 --exposures 3
privacy epsilon --noise-multiplier 2 --releases 10
privacy noise --epsilon 1 --releases 5
privacy noise --epsilon 1 --laplace
privacy exposure
privacy compose gaussian:2x10 gaussian:3
privacy epsilon --noise-multiplier 0
trace nowhere
compare one
run nothing.yaml
run scenario.yaml --set protocol.rounds=no
sweep scenario.yaml --out s
sweep scenario.yaml --set protocol.rounds=1,2 --set training.lr=0.1,0.2 --seeds 3 --write e.yaml
sweep scenario.yaml --set protocol.rounds
run scenario.yaml --out again --set protocol.rounds
run scenario.yaml --out one --set protocol.rounds=2
run scenario.yaml --out again --max-hours 0
"""


@cache
def _place() -> Path:
    place = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    scenario = Scenario.read(BASE)
    (place / "scenario.yaml").write_text(scenario.to_yaml())
    execute(scenario, place / "one")
    execute(scenario.override({"world.dropout": 0.0, "protocol.rounds": 5}), place / "other")
    return place


def _printed(command: str) -> Any:
    """Exit status and both streams; the folder is a fresh one each time."""
    place = Path(tempfile.mkdtemp())
    out, err, here = io.StringIO(), io.StringIO(), os.getcwd()
    code: object = 0
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}),
        mock.patch.object(sys, "argv", ["asyncfl", *shlex.split(command)]),
        contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
    ):  # fmt: skip
        shutil.copytree(_place(), place, dirs_exist_ok=True)
        os.chdir(place)
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        finally:
            os.chdir(here)
            shutil.rmtree(place)
    return [code, *(_steady(stream.getvalue()).splitlines() for stream in (out, err))]


def _steady(text: str) -> str:
    """A text without times, names of runs and the digits in which machines differ."""
    text = re.sub(r"written in [\d.]+ s", "written in some s", text)
    text = re.sub(r'"[0-9a-f]{16}"', '"name"', text)
    return re.sub(r"\d+\.\d{7,}", lambda found: f"{float(found[0]):.6g}", text)


CALLS: dict[str, Callable[[], Any]] = {command: partial(_printed, command) for command in COMMANDS.split("\n")[1:-1]}


@pytest.mark.parametrize("command", CALLS)
def test_what_is_printed_is_what_was_written_down(command: str) -> None:
    compare(LIST, command, CALLS[command])


if __name__ == "__main__":
    write(LIST, CALLS)
