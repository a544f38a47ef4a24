import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from asyncfl.base.errors import ScenarioError
from asyncfl.base.own_classes import look_for_modules_in
from asyncfl.base.tracking import Tracker, Trackers, read_tracker
from asyncfl.cli import app

CODE = """
from asyncfl.base.tracking import Tracker

class Notes(Tracker):
    lines = []

    def begin(self, name, scenario):
        self.lines.append(("begin", name, scenario["protocol"]["rounds"]))

    def row(self, row):
        self.lines.append(("row", row["seed"], row["version"]))

    def end(self, summary):
        self.lines.append(("end", len(summary["seeds"])))

    def close(self):
        self.lines.append(("close",))

class Broken(Tracker):
    def row(self, row):
        raise OSError("no network")

class Demanding(Tracker):
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
        ("trackers_of_ones_own:Other", "must be a class derived from asyncfl.base.tracking.Tracker"),
        ("trackers_of_ones_own:Demanding", "cannot be made: .*missing 1 required positional argument: 'key'"),
    ],
)
def test_what_is_no_tracker_is_refused(text: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        read_tracker(text)


def test_rows_are_handed_on_as_copies() -> None:
    class Greedy(Tracker):
        def row(self, row: Any) -> None:
            row.clear()

    row = {"seed": 0, "version": 1, "train_loss": math.nan}
    Trackers([Greedy(), Greedy()], print).row(row)
    assert row["version"] == 1
