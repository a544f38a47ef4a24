"""`asyncfl live` in this process: in real time (about a second), on simulated time, and Flower apps."""

import logging
import os
import re
import signal
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml

from asyncfl import api, simulate
from asyncfl.base.errors import OutputError
from asyncfl.base.files.yaml_text import read_text
from asyncfl.cli import live
from asyncfl.extras.live import live_run, virtual_loop
from asyncfl.results.storage import Run, RunFolder
from asyncfl.scenario import Scenario
from tests.extras.live.flower.grid import FakeGrid, our_app, stand_in

FAST = ("--shape", "--speedup", 100)


def test_a_live_run_is_written_and_replays(file: Path, tmp_path: Path, program: Any, refused: Any) -> None:
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
    assert set(run.tables) == {"rounds", "events", "tasks", "clients", "ledger", "spending"}
    status, out, _ = program("replay", folder)
    assert (status, "are the same as recorded" in out) == (0, True)
    assert program("trace", "events", folder)[0] == 0
    assert "was not made by this program" in refused("live", file, "--out", tmp_path)


def test_on_virtual_time_the_events_are_those_of_the_simulation(
    tiny: dict[str, Any], file: Path, tmp_path: Path, program: Any, refused: Any
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
    assert "leave one of them out" in refused(
        "live", "here", file, "--out", tmp_path / "x", "--virtual", "--speedup", 2
    )


def test_a_live_run_is_neither_replaced_nor_taken_for_a_simulation(
    file: Path, tmp_path: Path, program: Any, refused: Any
) -> None:
    folder = tmp_path / "live"
    assert program("live", file, "--out", folder, *FAST, "--quiet")[0] == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for command in ("live", "run"):
        assert "it holds a live run" in refused(command, file, "--out", folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_a_failing_seed_leaves_the_seeds_before_it(
    file: Path, tmp_path: Path, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here = live_run.run_here

    async def fails(resolved: Any, **options: Any) -> Any:
        if resolved.seed == 1:
            raise OSError("the second one fails")
        return await run_here(resolved, **options)

    monkeypatch.setattr(live_run, "run_here", fails)
    assert program("live", file, "--out", tmp_path / "live", *FAST, "--quiet", "--set", "seeds=2")[0] != 0
    assert list(Run.load(tmp_path / "live").summary["seeds"]) == ["0"]


def test_here_is_the_default_command(tmp_path: Path, refused: Any) -> None:
    for words in (["live", tmp_path / "none.yaml"], ["live", "--shape", tmp_path / "none.yaml"]):
        assert "none.yaml" in refused(*words)


def test_ctrl_c_while_tables_are_written_loses_none(
    file: Path, tmp_path: Path, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of = api.run_of

    def interrupted(*arguments: Any) -> Run:
        os.kill(os.getpid(), signal.SIGINT)
        return run_of(*arguments)

    monkeypatch.setattr(api, "run_of", interrupted)
    assert program("live", file, "--out", tmp_path / "live", *FAST, "--quiet", "--set", "seeds=2")[0] == 130
    assert list(Run.load(tmp_path / "live").summary["seeds"]) == ["0"], "the second seed was not begun"


def test_tables_that_cannot_be_written_are_written_elsewhere_or_named(
    file: Path, tmp_path: Path, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, spill, full = tmp_path / "out", tmp_path / "spill", [tmp_path / "out"]
    replace = RunFolder.replace

    def on_a_full_disk(own: RunFolder, *given: Any) -> None:
        if own.folder in full:
            raise OutputError(f"cannot write {own.folder}: No space left on device")
        replace(own, *given)

    monkeypatch.setattr(RunFolder, "replace", on_a_full_disk)
    words = ("live", file, "--out", out, "--spill", spill, *FAST, "--quiet")
    status, text, _ = program(*words)
    assert status == 1
    assert f"cannot write {out}: No space left on device" in " ".join(text.split())
    assert f"{spill} written" in text
    assert len(Run.load(spill).rounds) > 1
    assert not out.exists(), "nothing is left of what could not be written"
    full.append(tmp_path / "other")
    status, text, _ = program(*(tmp_path / "other" if word == spill else word for word in words))
    assert status == 1
    assert "the tables could not be written anywhere, and are lost" in " ".join(text.split())


@pytest.mark.parametrize("command", ["serve", "join", "keys"])
def test_a_removed_command_says_what_takes_its_place(command: str, program: Any) -> None:
    where = "several machines run with Flower (pip install 'asyncfl[flower]', docs/live.md)"
    for words in (("--help",), ("scenario.yaml", "--keys", "keys")):
        assert program("live", command, *words) == (2, "", f"asyncfl: asyncfl live {command} was removed: {where}\n")


def test_the_log_has_times_and_leaves_out_warnings_that_repeat(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1e9]
    monkeypatch.setattr("time.time", lambda: clock[0])
    log = logging.getLogger("asyncfl.extras.live")
    for name in ("handlers", "propagate", "level"):
        monkeypatch.setattr(log, name, getattr(log, name))
    live._print_log(quiet=False)
    for number in range(1000):
        log.warning("%s: refused", f"node {number}")
        log.info("node %s is a client", number)
    clock[0] += 11
    log.warning("%s: refused", "node 9")
    lines = capsys.readouterr().out.splitlines()
    assert all(re.match(r"2001-09-0\d \d\d:\d\d:\d\d ", line) for line in lines)
    assert sum("refused" in line for line in lines) == 11
    assert sum("is a client" in line for line in lines) == 1000
    assert lines[-1].endswith("node 9: refused (990 more before it were left out)")


@pytest.mark.parametrize(("breaks", "seeds"), [(False, ["0", "1"]), (True, ["0"])])
def test_the_server_of_a_flower_app_runs_all_seeds_while_the_grid_lasts(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, breaks: bool, seeds: list[str]
) -> None:
    grid = FakeGrid({100 + client: our_app(client) for client in range(5)})
    pull = grid.pull_messages

    def gone(names: Any) -> Any:
        if breaks and len(grid.messages()) > 7:
            raise ConnectionError("401 Unauthorized")
        return pull(names)

    monkeypatch.setattr(grid, "pull_messages", gone)
    monkeypatch.setattr(live, "asyncio", SimpleNamespace(run=virtual_loop.run))
    scenario = Scenario.read({**tiny, "seeds": 2})
    config = {"scenario": scenario.to_yaml(), "results": str(tmp_path / "out"), "timeout-s": "90"}
    with stand_in():
        live.serve_grid(grid, config)
    out = capsys.readouterr().out
    assert "waiting for 5 SuperNodes with partition-id=0..4" in out
    assert {message.metadata.ttl for message in grid.sent} == {90.0}
    assert "version 1  " in out
    (folder,) = (tmp_path / "out").iterdir()
    assert list(Run.load(folder).summary["seeds"]) == seeds


def test_the_app_holds_the_scenario_and_the_command_says_what_to_type(file: Path, tmp_path: Path, program: Any) -> None:
    app = tmp_path / "app"
    status, out, err = program("live", "flower", file, "--out", app, "--timeout-s", 90)
    assert (status, err) == (0, "")
    assert f"{app} written" in out
    assert "  flower-supernode --insecure --superlink HOST:8000 --node-config partition-id=N\n" in out
    assert f"  flwr run {app} NAME --stream\n" in out
    project = tomllib.loads((app / "pyproject.toml").read_text())
    flower = project["tool"]["flwr"]["app"]
    assert flower["components"] == {"serverapp": "server_app:app", "clientapp": "client_app:app"}
    assert flower["config"]["timeout-s"] == 90.0
    assert Path(flower["config"]["results"]).is_absolute()
    assert Scenario.read(read_text(flower["config"]["scenario"])) == Scenario.load(file).settled()
    for name in ("server_app.py", "client_app.py"):
        compile((app / name).read_text(), name, "exec")


def test_the_app_of_another_scenario_is_replaced_only_with_force(
    file: Path, tmp_path: Path, program: Any, refused: Any
) -> None:
    app = tmp_path / "app"
    assert program("live", "flower", file, "--out", app)[0] == 0
    assert program("live", "flower", file, "--out", app)[0] == 0
    before = (app / "pyproject.toml").read_text()
    other = ("live", "flower", file, "--out", app, "--set", "protocol.rounds=7")
    assert "holds a Flower app of another scenario" in refused(*other)
    assert (app / "pyproject.toml").read_text() == before
    assert program(*other, "--force")[0] == 0
    assert (app / "pyproject.toml").read_text() != before


def test_a_folder_of_the_user_is_left_alone_even_with_force(file: Path, tmp_path: Path, refused: Any) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "pyproject.toml").write_text("mine")
    assert "was not made by this program" in refused("live", "flower", file, "--out", mine, "--force")
    assert [path.name for path in mine.iterdir()] == ["pyproject.toml"]


def test_settings_that_real_clients_cannot_carry_out_are_refused(file: Path, tmp_path: Path, refused: Any) -> None:
    said = refused("live", "flower", file, "--out", tmp_path / "app", "--set", "evaluation.audit={}")
    assert "asyncfl: evaluation.audit: must be null" in said
    assert not (tmp_path / "app").exists()


def test_own_components_travel_with_the_app(tmp_path: Path, program: Any) -> None:
    examples = Path(__file__).parents[2] / "examples"
    scenario = (examples / "my_scenario.yaml", "--set", "threats=null")
    assert program("live", "flower", *scenario, "--out", tmp_path / "app")[0] == 0
    assert (tmp_path / "app" / "my_components.py").read_bytes() == (examples / "my_components.py").read_bytes()
