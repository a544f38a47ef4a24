"""`asyncfl calibrate`, and worlds in files."""

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
def run_program(program: Any) -> Any:
    """Calls `asyncfl`; returns its status and all that it printed."""

    def call(*arguments: object) -> tuple[object, str]:
        status, out, err = program(*arguments)
        return status, out + err

    return call


def test_a_world_with_its_table_is_written(run: Path, tmp_path: Path, run_program: Any) -> None:
    again = ("--checks", "3", "--predict", run / "scenario.yaml")
    status, printed = run_program("calibrate", run, *again, "--out", tmp_path / "world.yaml")
    assert status == 0, printed
    assert printed.count("95 % interval") == 2
    assert printed.count("time between versions") >= 2
    assert "task jitter" in printed
    assert "exponential, mean 1, least 0.8" in printed
    assert "60 trainings" in printed
    assert (tmp_path / "world.yaml").read_text().startswith("# A world that asyncfl calibrate fitted to ")
    assert [path.name for path in tmp_path.iterdir()] == ["world.yaml"]


def test_timeline_and_run_use_the_world(run: Path, tmp_path: Path, run_program: Any) -> None:
    run_program("calibrate", run, "--checks", "0", "--out", tmp_path / "world.yaml")
    scenario = run / "scenario.yaml"
    status, printed = run_program("timeline", scenario, "--world", tmp_path / "world.yaml", "--json")
    assert status == 0, printed
    predicted = json.loads(printed)["seeds"][0]["round_s"]["mean"]
    _, printed = run_program("timeline", scenario, "--json")
    assert predicted == pytest.approx(json.loads(printed)["seeds"][0]["round_s"]["mean"], rel=0.1)
    fitted = ("--world", tmp_path / "world.yaml", "--set", "world.aggregate_s=2")
    status, printed = run_program("run", scenario, *fitted, "--out", tmp_path / "r", "--quiet")
    assert status == 0, printed
    made = yaml.safe_load((tmp_path / "r" / "scenario.yaml").read_text())["world"]
    assert made["device"]["kind"] == "listed"
    assert made["aggregate_s"] == 2


def test_json_holds_the_fitted_parts(run: Path, tmp_path: Path, run_program: Any) -> None:
    status, printed = run_program(
        "calibrate", run, "--population", "--json", "--checks", "2", "--out", tmp_path / "world.yaml"
    )
    assert status == 0, printed
    found = json.loads(printed)
    # five speeds are too few for a shape
    assert found["world"]["device"]["kind"] == "fixed"
    assert [one["part"] for one in found["fitted"]][:2] == ["s per sample", "task jitter"]
    assert [one["name"] for one in found["check"]][:2] == ["time between versions", "staleness"]


def test_wrong_input_is_one_message(run: Path, tmp_path: Path, refused: Any) -> None:
    assert "must be 0 or at least 2, got 1" in refused("calibrate", run, "--checks", 1, "--out", tmp_path / "w.yaml")
    assert "holds no run" in refused("calibrate", tmp_path / "nowhere", "--out", tmp_path / "w.yaml")
    assert f"{run} has no seed 7; its seeds are 0" in refused(
        "calibrate", run, "--seed", 7, "--out", tmp_path / "w.yaml"
    )
    notes = tmp_path / "notes.yaml"
    notes.write_text("precious: true\n")
    assert "it exists already" in refused("calibrate", run, "--out", notes)
    assert "it is a file of another kind" in refused("calibrate", run, "--out", notes, "--force")
    assert notes.read_text() == "precious: true\n"
    assert {path.name for path in tmp_path.iterdir()} == {"notes.yaml"}
    wrong_world = refused("timeline", run / "scenario.yaml", "--world", notes)
    assert f"asyncfl: {notes}: precious: is no field" in wrong_world


ROUNDS = {
    "data": {"dataset": "mnist", "clients": 4, "samples_per_client": 100, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [8]},
    "protocol": {"kind": "sync", "rounds": 6},
    "world": {"downlink": {"latency_s": 0.5}},
}
LOG = "time_s,updates\n" + "".join(f"{at},4\n" for at in (10.0, 11.4, 12.9, 14.3, 15.7, 17.2))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of rounds beside its scenario, `rounds.yaml`; the search for its world is cut short."""
    monkeypatch.setattr("asyncfl.extras.calibration.round_fit.MOST_TRIALS", 20)
    (tmp_path / "rounds.yaml").write_text(yaml.safe_dump(ROUNDS))
    (tmp_path / "rounds.csv").write_text(LOG)
    return tmp_path / "rounds.csv"


def test_a_world_is_fitted_to_a_log_of_rounds(log: Path, tmp_path: Path, run_program: Any) -> None:
    scenario, out = tmp_path / "rounds.yaml", tmp_path / "world.yaml"
    status, printed = run_program("calibrate", log, "--scenario", scenario, "--predict", scenario, "--out", out)
    assert status == 0, printed
    for word in ("s per sample, all clients", "server, a version", "seconds per round, mean", "1.44", "predicted"):
        assert word in printed
    assert yaml.safe_load(out.read_text())["downlink"]["latency_s"] == 0.5, "the scenario's"
    status, printed = run_program("timeline", scenario, "--world", out, "--json")
    assert json.loads(printed)["seeds"][0]["round_s"]["mean"] == pytest.approx(1.44, rel=0.1)


def test_the_time_between_rounds_may_be_the_evaluation_of_clients(log: Path, tmp_path: Path, run_program: Any) -> None:
    scenario, out = tmp_path / "rounds.yaml", tmp_path / "world.yaml"
    evaluated = {**ROUNDS, "world": {**ROUNDS["world"], "evaluate_at": "clients"}, "evaluation": {"test_every": 1}}
    scenario.write_text(yaml.safe_dump(evaluated))
    status, printed = run_program("calibrate", log, "--scenario", scenario, "--out", out)
    assert status == 0, printed
    assert "client, an evaluation" in printed
    world = yaml.safe_load(out.read_text())
    assert (world["aggregate_s"], world["evaluate_at"]) == (0.0, "clients")
    assert world["evaluate_s"] > 0.05
    # A round that is not evaluated would be shorter; with an evaluation by the server, the seconds are others.
    other = tmp_path / "other.yaml"
    for described, message in (
        ({**evaluated, "evaluation": {"test_every": 2}}, "other.yaml: evaluation.test_every: must be 1 where clients"),
        (ROUNDS, "other.yaml: world.evaluate_at: must be clients as in the first scenario, got server"),
    ):
        other.write_text(yaml.safe_dump(described))
        arguments = ("--scenario", scenario, "--predict", other, "--out", tmp_path / "w.yaml")
        status, printed = run_program("calibrate", log, *arguments)
        assert status == 2
        assert message in " ".join(printed.split())


def test_logs_of_rounds_are_refused_in_words(log: Path, tmp_path: Path, run: Path, run_program: Any) -> None:
    scenario = tmp_path / "rounds.yaml"
    for arguments, message in (
        ((log,), "must be CSV files alone, with --scenario"),
        ((log, run, "--scenario", scenario), "must be CSV files alone"),
        ((log, "--scenario", scenario, "--scenario", scenario), "got 2 for 1 logs"),
        ((run, "--scenario", scenario), "must be left out with folders of runs"),
    ):
        status, printed = run_program("calibrate", *arguments, "--out", tmp_path / "w.yaml")
        assert status == 2
        assert message in " ".join(printed.split())
