"""`asyncfl live`: server and clients on this machine, in real time (about a second) or on simulated time."""

import os
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from asyncfl import api, simulate
from asyncfl.cli import live_server
from asyncfl.federation.storage import Run

FAST = ("--shape", "--speedup", 100)


def test_a_live_run_is_written_and_replays(file: Path, tmp_path: Path, program: Any) -> None:
    folder = tmp_path / "live"
    status, out, err = program("live", file, "--out", folder, "--set", "evaluation.record=parameters", *FAST)
    assert (status, err) == (0, "")
    assert "version 1  " in out
    assert " in flight  " in out
    assert "epsilon" not in out, "the scenario has no privacy scheme"
    assert max(len(line) for line in out.splitlines() if str(tmp_path) not in line) <= 80
    run = Run.load(folder)
    assert run.summary["seeds"]["0"]["stopped"] == "all versions published"
    assert len(run.rounds) == run.scenario.protocol.rounds + 1
    assert run.rounds["test_accuracy"].notna().all()
    assert set(run.tables) == {"rounds", "events", "clients", "ledger", "spending"}
    status, out, _ = program("replay", folder)
    assert (status, "are the same as recorded" in out) == (0, True)
    assert program("trace", "events", folder)[0] == 0
    status, _, err = program("live", file, "--out", tmp_path)
    assert (status, "was not made by this program" in err) == (2, True)


def test_on_virtual_time_the_events_are_those_of_the_simulation(
    tiny: dict[str, Any], file: Path, tmp_path: Path, program: Any
) -> None:
    slow = {"kind": "lognormal", "median_s_per_sample": 10.0, "sigma": 0.5}
    link = {"latency_s": {"kind": "uniform", "low": 1.0, "high": 60.0}, "bandwidth_bps": 1e6}
    scenario = {**tiny, "world": {"device": slow, "downlink": link, "uplink": link}}
    file.write_text(yaml.safe_dump(scenario))
    status, out, _ = program("live", "here", file, "--out", tmp_path / "live", "--virtual", "--quiet")
    assert status == 0
    assert "clients trained on virtual time" in " ".join(out.split())
    simulated, live = simulate(scenario).events, Run.load(tmp_path / "live").events
    assert live["time_s"].iloc[-1] > 600, "minutes of the scenario pass in a moment"
    pd.testing.assert_frame_equal(live, simulated)
    status, _, err = program("live", "here", file, "--out", tmp_path / "x", "--virtual", "--speedup", 2)
    assert (status, "leave one of them out" in " ".join(err.replace("│", " ").split())) == (2, True)


def test_a_live_run_is_neither_replaced_nor_taken_for_a_simulation(file: Path, tmp_path: Path, program: Any) -> None:
    folder = tmp_path / "live"
    assert program("live", file, "--out", folder, *FAST, "--quiet")[0] == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for command in ("live", "run"):
        status, _, err = program(command, file, "--out", folder)
        assert (status, "it holds a live run" in err) == (2, True)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_a_failing_seed_leaves_the_seeds_before_it(
    file: Path, tmp_path: Path, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_seed = live_server._run_here

    async def fails(scenario: Any, seed: int, *others: Any) -> Any:
        if seed == 1:
            raise OSError("the second one fails")
        return await run_seed(scenario, seed, *others)

    monkeypatch.setattr(live_server, "_run_here", fails)
    assert program("live", file, "--out", tmp_path / "live", *FAST, "--quiet", "--set", "seeds=2")[0] != 0
    assert list(Run.load(tmp_path / "live").summary["seeds"]) == ["0"]


def test_here_is_the_default_command(tmp_path: Path, program: Any) -> None:
    for words in (["live", tmp_path / "none.yaml"], ["live", "--shape", tmp_path / "none.yaml"]):
        status, _, err = program(*words)
        assert (status, "none.yaml" in err) == (2, True)


def test_ctrl_c_while_tables_are_written_loses_none(
    file: Path, tmp_path: Path, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of = api.run_of

    def interrupted(*arguments: Any) -> Run:
        os.kill(os.getpid(), signal.SIGINT)
        return run_of(*arguments)

    monkeypatch.setattr(api, "run_of", interrupted)
    assert program("live", file, "--out", tmp_path / "live", *FAST, "--quiet", "--set", "seeds=2")[0] == 0
    assert list(Run.load(tmp_path / "live").summary["seeds"]) == ["0"], "the second seed was not begun"
