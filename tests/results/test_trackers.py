"""Trackers: TensorBoard, JSON lines, classes of one's own, and those that the documentation shows."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, call

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from asyncfl import simulate
from asyncfl.base.errors import OutputError, ScenarioError
from asyncfl.base.instrument import Instrument
from asyncfl.base.own_classes import look_for_modules_in
from asyncfl.cli import app
from asyncfl.results.trackers import TensorBoard, Trackers, read_tracker

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "trackers.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    ("package", "name", "logs"), [("mlflow", "Mlflow", "log_metrics"), ("wandb", "WeightsAndBiases", "log")]
)
def test_it_is_about_ten_lines_and_tells_every_version(
    monkeypatch: pytest.MonkeyPatch, tiny: dict[str, Any], package: str, name: str, logs: str
) -> None:
    (code,) = [block for block in BLOCKS if f"import {package}" in block]
    service = MagicMock()
    monkeypatch.setitem(sys.modules, package, service)
    found: dict[str, Any] = {}
    exec(compile(code, "docs/trackers.md", "exec"), found)
    body = code[code.index("class ") :].strip().splitlines()
    assert len([line for line in body if line.strip()]) <= 12
    tracker = found[name]()
    assert isinstance(tracker, Instrument)
    run = simulate(tiny)
    tracker.begin("mine", run.scenario.model_dump(mode="json"))
    for row in run.rounds.to_dict("records"):
        tracker.row(row)
    tracker.end(run.summary)
    tracker.close()
    numbers = [made.args[0] for made in service.mock_calls if made[0].rpartition(".")[2] == logs]
    assert len(numbers) == len(run.rounds)
    last = run.rounds.iloc[-1]
    assert numbers[-1]["test_accuracy/0"] == last["test_accuracy"]
    if package == "mlflow":
        assert all(math.isfinite(value) for told in numbers for value in told.values())


def test_writers_of_seeds_are_told_numbers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = MagicMock()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    board = read_tracker(f"tensorboard:{tmp_path}")
    assert isinstance(board, TensorBoard)
    board.begin("0123", {"seeds": [4]})
    for version in (0, 1):
        told_of = {"test_loss": 2.5 - version, "test_accuracy": math.nan, "note": "text", "participants": 3}
        board.row({"seed": 4, "version": version, "diverged": False, **told_of})
    board.close()
    writer = call().add_scalar
    assert module.SummaryWriter.mock_calls == [
        call(str(tmp_path / "0123" / "seed-4"), purge_step=0),
        call().add_text("scenario", '```json\n{\n  "seeds": [\n    4\n  ]\n}\n```'),
        *(writer("test_loss", 2.5, 0), writer("participants", 3, 0)),
        *(writer("test_loss", 1.5, 1), writer("participants", 3, 1)),
        call().close(),
    ]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(
        OutputError, match=r"--track tensorboard needs TensorBoard: pip install 'asyncfl\[tensorboard\]'"
    ):
        read_tracker("tensorboard:here")


CODE = """
from asyncfl import Instrument

class Notes(Instrument):
    lines = []

    def begin(self, name, scenario):
        self.lines.append(("begin", name, scenario["protocol"]["rounds"]))

    def row(self, row):
        self.lines.append(("row", row["seed"], row["version"]))

    def end(self, summary):
        self.lines.append(("end", len(summary["seeds"])))

    def close(self):
        self.lines.append(("close",))

class Broken(Instrument):
    def row(self, row):
        raise OSError("no network")

    def close(self):
        print("Broken is closed")

class Demanding(Instrument):
    def __init__(self, key):
        pass

class Other:
    pass
"""


@pytest.fixture(autouse=True)
def module(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The user's file, where it is looked for."""
    folder = Path(tmp_path_factory.getbasetemp()) / "own_trackers"
    folder.mkdir(exist_ok=True)
    (folder / "trackers_of_ones_own.py").write_text(CODE)
    look_for_modules_in(folder)


@pytest.fixture
def file(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump({**tiny, "seeds": 2}))
    return path


def run(file: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["run", str(file), "--out", str(file.parent / "run"), *arguments])


def test_a_tracker_of_ones_own_is_told_each_version_once(file: Path) -> None:
    lines = read_tracker("trackers_of_ones_own:Notes").lines  # type: ignore[attr-defined]
    rows = [("row", seed, version) for seed in (0, 1) for version in range(4)]
    for _ in range(2):  # the second time the run is there already
        lines.clear()
        result = run(file, "--track", "trackers_of_ones_own:Notes", "--quiet")
        assert result.exit_code == 0, result.output
        assert (lines[0][0], lines[0][2]) == ("begin", 3)
        assert lines[1:] == [*rows, ("end", 2), ("close",)]


def test_a_tracker_that_fails_ends_no_run(file: Path) -> None:
    result = run(file, "--track", "trackers_of_ones_own:Broken", "--quiet")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("the tracker Broken failed and is dropped") == 1
    assert result.stdout.count("Broken is closed") == 1
    assert "no network" in result.stderr
    assert (file.parent / "run" / "summary.json").exists()


def test_json_lines_are_all_that_is_printed(file: Path) -> None:
    for _ in range(2):
        result = run(file, "--json")
        assert result.exit_code == 0, result.output
        begin, *rows, end = [json.loads(line) for line in result.stdout.splitlines()]
        assert begin["begin"]["scenario"]["seeds"] == [0, 1]
        assert [(one["row"]["seed"], one["row"]["version"]) for one in rows] == [
            (s, v) for s in (0, 1) for v in range(4)
        ]
        assert rows[0]["row"]["attack_success"] is None
        assert end["end"]["folder"] == str(file.parent / "run")
        assert end["end"]["summary"]["seeds"].keys() == {"0", "1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wandb", "must be tensorboard:DIR or my_module:MyTracker"),
        ("tensorboard:", "must be tensorboard:DIR or my_module:MyTracker"),
        ("trackers_of_ones_own:Missing", "has no 'Missing'"),
        ("trackers_of_ones_own:Other", "must be a class derived from asyncfl.Instrument"),
        ("trackers_of_ones_own:Demanding", "cannot be made: .*missing 1 required positional argument: 'key'"),
    ],
)
def test_what_is_no_tracker_is_refused(text: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        read_tracker(text)


def test_rows_are_handed_on_as_copies() -> None:
    class Greedy(Instrument):
        def row(self, row: Any) -> None:
            row.clear()

    row = {"seed": 0, "version": 1, "train_loss": math.nan}
    Trackers([Greedy(), Greedy()], print).row(row)
    assert row["version"] == 1
