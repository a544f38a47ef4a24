"""`asyncfl sweep`, and `asyncfl compare` of its runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from asyncfl.cli import app
from asyncfl.errors import OutputError, RunError, ScenarioError
from asyncfl.experiment.sweep import Swept
from asyncfl.limits import Limits


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture
def swept(tmp_path: Path, tiny: dict[str, Any]) -> list[Path]:
    """Three runs of two seeds, at three rates."""
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(tiny))
    arguments = ["sweep", tmp_path / "scenario.yaml", "--set", "training.lr=0.01,0.05,0.2", "--seeds", 2]
    result = call(*arguments, "--out", tmp_path / "runs", "--jobs", 1, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)["runs"]
    assert [one["values"] for one in found] == [{"training.lr": rate} for rate in (0.01, 0.05, 0.2)]
    assert all(one["final"]["test_accuracy"]["seeds"] == 2 for one in found)
    assert [(one["failed"], one["diverged"]) for one in found] == [(None, 0)] * 3
    return [Path(one["folder"]) for one in found]


def test_results_are_tabulated_and_failures_reported(swept: list[Path], tmp_path: Path) -> None:
    arguments = ["sweep", tmp_path / "scenario.yaml", "--set", "training.lr=0.01,0.05,0.2", "--seeds", 2]
    again = call(*arguments, "--out", tmp_path / "runs", "--jobs", 1)
    assert again.exit_code == 0, again.output
    assert again.output.count("exists already") == 3
    assert "training.lr  test_accuracy (share)" in again.output
    assert "n = 2 seeds" in again.output
    (tmp_path / "runs").rename(tmp_path / "moved")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / swept[0].name).write_text("")
    failed = call(*arguments, "--out", tmp_path / "runs", "--jobs", 1, "--quiet")
    assert isinstance(failed.exception, RunError)
    assert str(failed.exception).startswith("1 of 3 runs failed, the first at training.lr=0.01: cannot write")
    assert failed.output.splitlines()[0].startswith("training.lr")


def test_parallel_runs_are_the_same(swept: list[Path], tmp_path: Path) -> None:
    arguments = ["sweep", tmp_path / "scenario.yaml", "--set", "training.lr=0.01,0.05", "--seeds", 2, "--quiet"]
    result = call(*arguments, "--out", tmp_path / "parallel", "--jobs", 2)
    assert result.exit_code == 0, result.output
    for folder in swept[:2]:
        for name in ("rounds.parquet", "events.parquet", "summary.json"):
            assert (tmp_path / "parallel" / folder.name / name).read_bytes() == (folder / name).read_bytes()


def test_an_experiment_file_is_written_but_not_replaced(tmp_path: Path, tiny: dict[str, Any]) -> None:
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(tiny))
    arguments = ["sweep", tmp_path / "scenario.yaml", "--set", "training.lr=0.1,0.2", "--write", tmp_path / "e.yaml"]
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    assert "2 runs over training.lr" in result.output
    assert isinstance(call(*arguments).exception, OutputError)


def test_compare_lists_fields_and_differences_by_seed(swept: list[Path]) -> None:
    result = call("compare", *swept[:2])
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines()]
    assert ["training.lr", "0.01", "0.05"] in lines
    assert any(line[:2] == ["test_accuracy", "(share)"] for line in lines)
    assert "differences, paired by seed: mean ± half of the 95 % t interval over n = 2" in result.output
    found = json.loads(call("compare", *swept, "--json").output)
    assert found["fields"] == {"training.lr": [0.01, 0.05, 0.2]}
    means, [first, second] = found["final"]["train_loss"]["mean"], found["final"]["train_loss"]["difference"]
    assert first["mean"] == pytest.approx(means[1] - means[0])
    assert second["mean"] == pytest.approx(means[2] - means[0])
    assert second["half_of_95_interval"] > 0


def test_compare_needs_two_runs(swept: list[Path]) -> None:
    assert isinstance(call("compare", swept[0]).exception, ScenarioError)
    same = call("compare", swept[0], swept[0])
    assert "The scenarios are the same in all fields." in same.output


def test_an_interrupted_sweep_counts_the_finished_runs(
    tmp_path: Path, tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(tiny))
    given: list[Any] = []

    def run_all(scenarios: Any, out: Path, jobs: int, limits: Any, beside: Path) -> Any:
        given.append((len(scenarios), out, jobs, limits, beside))
        yield 1, Swept(out / "b", 1.26, was_there=False, failed="")
        yield 0, Swept(out / "a", 0.0, was_there=True, failed="")
        yield 2, Swept(out / "c", 0.5, was_there=False, failed="no")
        raise KeyboardInterrupt

    monkeypatch.setattr("asyncfl.experiment.sweep.run_all", run_all)
    monkeypatch.setattr("asyncfl.experiment.sweep.cores", lambda: 3)
    words = ["sweep", tmp_path / "scenario.yaml", "--set", "training.lr=1,2,3,4", "--out", tmp_path / "o"]
    result = call(*words, "--max-hours", 1, "--max-gib", 2)
    assert result.exit_code == 130
    assert result.output.splitlines()[:4] == [
        f"1 of 4: training.lr=2: {tmp_path}/o/b written in 1.3 s",
        f"2 of 4: training.lr=1: {tmp_path}/o/a exists already",
        f"3 of 4: training.lr=3: {tmp_path}/o/c failed",
        "interrupted; 2 of 4 runs are finished; repeat the command to continue",
    ]
    for quiet in ("--quiet", "--json"):
        assert call(*words, quiet, "--jobs", 2).output.splitlines()[0].startswith("interrupted; 2 of 4")
    assert given[0] == (4, tmp_path / "o", 3, Limits(hours=1, gib=2), tmp_path)
    assert [one[2] for one in given[1:]] == [2, 2]
