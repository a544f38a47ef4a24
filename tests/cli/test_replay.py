from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from asyncfl.cli import app, main
from asyncfl.errors import RunError, ScenarioError


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["replay", *arguments])


@pytest.fixture
def run(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A recorded asynchronous run of two seeds."""
    tiny["protocol"] = {"kind": "buffered", "rounds": 3, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}
    tiny["evaluation"] = {"record": "digests"}
    tiny["seeds"] = 2
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(tiny))
    folder = tmp_path / "runs" / "run"
    result = CliRunner().invoke(app, ["run", str(tmp_path / "scenario.yaml"), "--out", str(folder), "--quiet"])
    assert result.exit_code == 0, result.output
    return folder


def change(run: Path, old: str, new: str) -> None:
    messages = run / "messages.jsonl"
    text = messages.read_text()
    assert old in text
    messages.write_text(text.replace(old, new, 1))


def test_all_actions_of_a_run_are_reproduced(run: Path) -> None:
    result = call(str(run))
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert said.count("are the same as recorded; not compared: models of versions above 0 (--train compares them)") == 2
    trained = call(str(run), "--train", "--seed", "1", "--json")
    assert trained.exit_code == 0, trained.output
    found = json.loads(trained.output)
    assert found["same"]
    assert [(one["seed"], one["unchecked"]) for one in found["seeds"]] == [(1, [])]
    assert found["seeds"][0]["actions"] > 10


def test_the_first_difference_is_told_and_the_status_says_so(run: Path) -> None:
    change(run, '"fate":"aggregated","staleness":0', '"fate":"aggregated","staleness":2')
    result = call(str(run))
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert "seed 0: first difference in line" in said
    assert "staleness=2" in said
    assert "seed 1: all" in said
    found = json.loads(call(str(run), "--json").output)
    assert not found["same"]
    assert "difference" in found["seeds"][0]


def test_a_run_that_was_not_recorded_says_how_to(tmp_path: Path, run: Path) -> None:
    (run / "messages.jsonl").unlink()
    assert isinstance(call(str(run)).exception, RunError)
    assert "evaluation.record=digests" in str(call(str(run)).exception)
    assert isinstance(call(str(tmp_path)).exception, RunError)


def test_a_seed_that_is_not_there_is_refused(run: Path) -> None:
    result = call(str(run), "--seed", "7")
    assert isinstance(result.exception, ScenarioError)
    assert "--seed: must be one of the run's (0, 1), got 7" in str(result.exception)


def test_a_damaged_recording_ends_with_status_two(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(run, '{"answers"', '{"anwers"')
    monkeypatch.setattr("sys.argv", ["asyncfl", "replay", str(run)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
