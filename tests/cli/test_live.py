"""`asyncfl live`: a federation here, in real time, of a second or so."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from asyncfl import simulate
from asyncfl.cli import main
from asyncfl.storage import Run


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> object:
    monkeypatch.setattr(sys, "argv", ["asyncfl", *map(str, arguments)])
    try:
        main()
    except SystemExit as ended:
        return ended.code or 0
    return 0


def test_it_writes_a_run_that_replays(
    tiny: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folder = tmp_path / "scenario.yaml", tmp_path / "held"
    path.write_text(yaml.safe_dump(tiny))
    record = "evaluation.record=parameters"
    assert call(monkeypatch, "live", path, "--out", folder, "--set", record, "--shape", "--speedup", 100) == 0
    printed = "".join(capsys.readouterr())
    assert "version 1  " in printed
    assert " in flight  " in printed
    assert "can subtract it" in " ".join(printed.split())
    # Without privacy there is nothing to say of it.
    assert "epsilon" not in printed
    assert max(len(line) for line in printed.splitlines() if str(tmp_path) not in line) <= 80
    run = Run.load(folder)
    assert run.summary["seeds"]["0"]["stopped"] == "all versions published"
    assert len(run.rounds) == run.scenario.protocol.rounds + 1
    assert run.rounds["test_accuracy"].notna().all()
    assert set(run.tables) == {"rounds", "events", "clients", "ledger", "spending"}
    assert call(monkeypatch, "replay", folder) == 0
    assert "are the same as recorded" in "".join(capsys.readouterr())
    assert call(monkeypatch, "trace", "events", folder) == 0
    capsys.readouterr()
    assert call(monkeypatch, "live", path, "--out", tmp_path) == 2
    assert "was not made by this program" in "".join(capsys.readouterr())


def test_on_virtual_time_the_events_are_those_of_the_simulation(
    tiny: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {"kind": "lognormal", "median_s_per_sample": 10.0, "sigma": 0.5}
    link = {"latency_s": {"kind": "uniform", "low": 1.0, "high": 60.0}, "bandwidth_bps": 1e6}
    path, folder = tmp_path / "scenario.yaml", tmp_path / "live"
    scenario = {**tiny, "world": {"device": slow, "downlink": link, "uplink": link}}
    path.write_text(yaml.safe_dump(scenario))
    assert call(monkeypatch, "live", "here", path, "--out", folder, "--virtual", "--quiet") == 0
    assert "clients trained on virtual time" in " ".join("".join(capsys.readouterr()).split())
    simulated, live = simulate(scenario).events, Run.load(folder).events
    assert live["time_s"].iloc[-1] > 600, "minutes of the scenario pass in a moment"
    pd.testing.assert_frame_equal(live, simulated)
    assert call(monkeypatch, "live", "here", path, "--out", tmp_path / "x", "--virtual", "--speedup", 2) == 2
    assert "leave one of them out" in " ".join("".join(capsys.readouterr()).split())


def test_what_happened_in_real_time_is_neither_replaced_nor_taken_for_a_simulation(
    tiny: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folder = tmp_path / "scenario.yaml", tmp_path / "held"
    path.write_text(yaml.safe_dump(tiny))
    assert call(monkeypatch, "live", path, "--out", folder, "--shape", "--speedup", 100, "--quiet") == 0
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    for command in ("live", "run"):
        capsys.readouterr()
        assert call(monkeypatch, command, path, "--out", folder) == 2
        assert "it holds a live run" in " ".join("".join(capsys.readouterr()).split())
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before


def test_a_seed_that_fails_leaves_those_before_it(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from asyncfl.cli import live_here

    path, folder = tmp_path / "scenario.yaml", tmp_path / "held"
    path.write_text(yaml.safe_dump(tiny | {"seeds": 2}))
    held = live_here._run_seed

    async def fails(description: Any, seed: int, *others: Any) -> Any:
        if seed == 1:
            raise OSError("the second one fails")
        return await held(description, seed, *others)

    monkeypatch.setattr(live_here, "_run_seed", fails)
    assert call(monkeypatch, "live", path, "--out", folder, "--shape", "--speedup", 100, "--quiet") != 0
    assert list(Run.load(folder).summary["seeds"]) == ["0"]


def test_a_scenario_needs_no_command_and_help_lists_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (["live", tmp_path / "none.yaml"], ["live", "--shape", tmp_path / "none.yaml"]):
        assert call(monkeypatch, *words) == 2
        assert "none.yaml" in "".join(capsys.readouterr())
    call(monkeypatch, "live", "--help")
    assert "here" in "".join(capsys.readouterr())


def test_ctrl_c_while_tables_are_made_loses_none(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from asyncfl import api

    made = api.run_of

    def interrupted(*arguments: Any) -> Run:
        os.kill(os.getpid(), signal.SIGINT)
        return made(*arguments)

    monkeypatch.setattr(api, "run_of", interrupted)
    path, folder = tmp_path / "scenario.yaml", tmp_path / "held"
    path.write_text(yaml.safe_dump({**tiny, "seeds": 2}))
    assert call(monkeypatch, "live", path, "--out", folder, "--shape", "--speedup", 100, "--quiet") == 0
    assert list(Run.load(folder).summary["seeds"]) == ["0"], "the second was not begun"


def test_live_alone_tells_its_commands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    call(monkeypatch, "live")
    out, err = capsys.readouterr()
    assert all(name in out for name in ("Usage", "here", "serve", "join", "keys", "flower"))
    assert err == ""
