"""Progress bars: on the terminal of standard error, never on standard output."""

import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from asyncfl.api import execute
from asyncfl.base.instrument import Instrument
from asyncfl.cli.progress import ProgressBar
from asyncfl.scenario import Scenario

NOISED = {"privacy": {"kind": "nbafl", "epsilon": 50}, "world": {"tap": {"uplink": True}}}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Text that is drawn on standard error, which is a terminal."""
    drawn = io.StringIO()
    monkeypatch.setattr("asyncfl.cli.progress.stderr", Console(file=drawn, force_terminal=True, width=200))
    return drawn


@pytest.fixture
def run(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A small run with noise and an eavesdropper, and its scenario beside it."""
    data = {**tiny["data"], "clients": 3, "test_samples": 400}
    scenario = Scenario.read({**tiny, **NOISED, "data": data})
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(scenario.resolved()))
    return execute(scenario, tmp_path / "run")


NEIGHBOURS = ("--twins", 2, "--clients", 2, "--neighbours", "noise")


@pytest.mark.parametrize(("options", "shown"), [([], True), (["--quiet"], False), (["--json"], False)])
def test_quiet_and_json_draw_nothing(
    run: Path, drawn: io.StringIO, program: Any, options: list[str], shown: bool
) -> None:
    assert program("timeline", run.parent / "scenario.yaml", *options)[0] == 0
    assert program("audit", "neighbours", run, *NEIGHBOURS, *options)[0] == 0
    assert ("seed 0" in drawn.getvalue()) is shown


def test_the_bar_counts_versions_of_all_seeds(tiny: dict[str, Any], drawn: io.StringIO) -> None:
    bar = ProgressBar(Scenario.read(tiny | {"seeds": [7, 3]}), quiet=False)
    (task,) = bar._progress.tasks
    assert (task.completed, task.total) == (0, 6)
    for row, completed, note in (
        ({"seed": 7, "version": 2, "time_s": 90.0, "train_loss": 0.12345, "test_loss": 9.0}, 2, "loss 0.1235  "),
        ({"seed": 3, "version": 0, "time_s": 90.0, "train_loss": math.nan, "test_loss": 0.5}, 3, "loss 0.5000  "),
        ({"seed": 3, "version": 1, "time_s": 90.0, "train_loss": math.nan, "test_loss": math.nan}, 4, ""),
    ):
        bar.row(row)
        shown = (task.description, task.completed, task.fields["note"])
        assert shown == (f"seed {row['seed']}", completed, f"{note}virtual 1.5 min  ")
    bar.progress("twins", 1, 3)
    assert [(one.description, one.completed, one.total) for one in bar._progress.tasks[1:]] == [("twins", 1, 3)]
    bar.progress("twins", 3, 3)
    assert [one.description for one in bar._progress.tasks] == ["seed 3"], "a finished computation is removed"


def test_what_is_done_before_the_first_version_and_after_the_last_is_told(tiny: dict[str, Any], tmp_path: Path) -> None:
    told: list[Any] = []

    class Listing(Instrument):
        def row(self, row: Mapping[str, Any]) -> None:
            told.append(row["version"])

        def progress(self, what: str, done: int, of: int | None) -> None:
            told.append((what, done, of))

    scenario = Scenario.read(tiny | {"seeds": [7]})
    execute(scenario, tmp_path / "run", [Listing()])
    rounds = scenario.protocol.rounds
    first, last = told.index(0), told.index(rounds)
    assert told[:first] == [
        ("data of seed 7", 0, 1),
        ("data of seed 7", 1, 1),
        ("beginning of seed 7", 0, 1),
    ]
    assert told[first + 1] == ("beginning of seed 7", 1, 1)
    after = [one[:2] for one in told[last + 1 :]]
    assert after[0] == ("tables of seed 7", 0)
    ends = [("tables of seed 7", 1), ("files of seed 7", 0), ("files of seed 7", 1)]
    assert after[-5:] == [*ends, ("files of the run", 0), ("files of the run", 1)]
    assert any(what.startswith("ledger of seed 7") for what, _ in after)


def test_a_full_bar_tells_no_time_left(tiny: dict[str, Any], drawn: io.StringIO) -> None:
    scenario = Scenario.read(tiny | {"seeds": [7]})
    with ProgressBar(scenario, quiet=False) as bar:
        for version in range(scenario.protocol.rounds + 1):
            bar.row({"seed": 7, "version": version, "time_s": 1.0, "train_loss": 0.5, "test_loss": 0.5})
        bar._progress.refresh()
        drawn.truncate(0)
        bar.progress("tables", 0, 1)
        bar._progress.refresh()
    assert "tables" in drawn.getvalue()
    assert "0:00:00" not in drawn.getvalue()
