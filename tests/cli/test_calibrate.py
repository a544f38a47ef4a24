"""`asyncfl calibrate`, and worlds in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from asyncfl.api import simulate
from asyncfl.scenario import Scenario


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a world with jitter."""
    scenario = {
        "data": {"dataset": "mnist", "clients": 5, "samples_per_client": 20, "source": "embedded", "test_samples": 50},
        "model": {"kind": "mlp", "hidden": [8]},
        "training": {"lr": 0.05, "batch_size": 10},
        "protocol": {"kind": "sync", "rounds": 12},
        "world": {
            "device": {
                "kind": "lognormal",
                "median_s_per_sample": 0.002,
                "sigma": 0.5,
                "jitter": {"kind": "exponential", "mean": 1.0, "minimum": 0.8},
            },
            "uplink": {"latency_s": 0.05, "bandwidth_bps": 1e6, "loss": {"kind": "independent", "probability": 0.1}},
        },
    }
    return simulate(Scenario.read(scenario)).save(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def say(program: Any) -> Any:
    """Calls `asyncfl` at 80 columns; returns its status and what it printed."""

    def call(*arguments: object) -> tuple[object, str]:
        status, out, err = program(*arguments)
        return status, out + err

    return call


def test_a_world_its_table_and_its_plots(run: Path, tmp_path: Path, say: Any) -> None:
    status, said = say("calibrate", run, "--out", tmp_path / "world.yaml")
    assert status == 0, said
    assert "task jitter" in said
    assert "exponential, mean 1, least 0.8" in said
    assert "60 trainings" in said
    assert (tmp_path / "world.yaml").read_text().startswith("# A world that asyncfl calibrate fitted to ")
    assert {"world-task-jitter.png", "world-task-jitter.svg"} <= {path.name for path in tmp_path.iterdir()}


def test_timeline_and_run_take_the_world(run: Path, tmp_path: Path, say: Any) -> None:
    say("calibrate", run, "--out", tmp_path / "world.yaml")
    scenario = run / "scenario.yaml"
    status, said = say("timeline", scenario, "--world", tmp_path / "world.yaml", "--json")
    assert status == 0, said
    predicted = json.loads(said)["seeds"][0]["round_s"]["mean"]
    _, said = say("timeline", scenario, "--json")
    assert predicted == pytest.approx(json.loads(said)["seeds"][0]["round_s"]["mean"], rel=0.1)
    status, said = say(
        "run",
        scenario,
        "--world",
        tmp_path / "world.yaml",
        "--set",
        "world.aggregate_s=2",
        "--out",
        tmp_path / "r",
        "--quiet",
    )
    assert status == 0, said
    made = yaml.safe_load((tmp_path / "r" / "scenario.yaml").read_text())["world"]
    assert made["device"]["kind"] == "listed"
    assert made["aggregate_s"] == 2


def test_as_json(run: Path, tmp_path: Path, say: Any) -> None:
    status, said = say("calibrate", run, "--population", "--json", "--out", tmp_path / "world.yaml")
    assert status == 0, said
    told = json.loads(said)
    # five speeds are too few for a shape
    assert told["world"]["device"]["kind"] == "fixed"
    assert [one["part"] for one in told["fitted"]][:2] == ["s per sample", "task jitter"]


def test_equal_runs_give_equal_bytes(run: Path, tmp_path: Path, say: Any) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        say("calibrate", run, "--out", tmp_path / name / "world.yaml")
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)


def test_a_plot_of_the_same_name_is_replaced_only_where_that_is_asked_for(run: Path, tmp_path: Path, say: Any) -> None:
    plot = tmp_path / "world-task-jitter.png"
    plot.write_bytes(b"mine")
    status, said = say("calibrate", run, "--out", tmp_path / "world.yaml")
    assert status == 2
    assert f"cannot write {plot}: it exists already" in said
    assert ([path.name for path in tmp_path.iterdir()], plot.read_bytes()) == ([plot.name], b"mine")
    assert say("calibrate", run, "--out", tmp_path / "world.yaml", "--force")[0] == 0
    assert plot.read_bytes() != b"mine"


def test_bad_input_is_one_message(run: Path, tmp_path: Path, say: Any) -> None:
    status, said = say("calibrate", tmp_path / "nowhere", "--out", tmp_path / "w.yaml")
    assert (status, said.count("\n")) == (2, 1)
    assert "holds no run" in said
    status, said = say("calibrate", run, "--seed", 7, "--out", tmp_path / "w.yaml")
    assert (status, said) == (2, f"asyncfl: {run} has no seed 7; its seeds are 0\n")
    (tmp_path / "notes.yaml").write_text("precious: true\n")
    status, said = say("calibrate", run, "--out", tmp_path / "notes.yaml")
    assert status == 2
    assert "it exists already" in said
    status, said = say("calibrate", run, "--out", tmp_path / "notes.yaml", "--force")
    assert status == 2
    assert "it is a file of another kind" in said
    assert (tmp_path / "notes.yaml").read_text() == "precious: true\n"
    assert {path.name for path in tmp_path.iterdir()} == {"notes.yaml"}
    status, said = say("timeline", run / "scenario.yaml", "--world", tmp_path / "notes.yaml")
    assert status == 2
    assert f"asyncfl: {tmp_path / 'notes.yaml'}: precious: is no field" in said
