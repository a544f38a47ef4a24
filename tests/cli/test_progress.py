"""Bars of progress: on the terminal of standard error, never in what is printed."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from asyncfl.api import execute
from asyncfl.cli import app
from asyncfl.cli.progress import ProgressBar
from asyncfl.scenario import Scenario

NOISED = {"privacy": {"kind": "nbafl", "epsilon": 50}, "world": {"tap": {"uplink": True}}}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What comes to standard error, a terminal."""
    drawn = io.StringIO()
    monkeypatch.setattr("asyncfl.cli.progress.stderr", Console(file=drawn, force_terminal=True, width=200))
    return drawn


@pytest.fixture
def run(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A small noised run that an eavesdropper heard, and its scenario beside it."""
    data = {**tiny["data"], "clients": 3, "test_samples": 400}
    scenario = Scenario.read({**tiny, **NOISED, "data": data})
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(scenario.resolved()))
    return execute(scenario, tmp_path / "run")


STAGES = {
    "neighbours": (
        ["--twins", "2", "--clients", "2", "--neighbours", "noise"],
        ["seed 0", "twins", "epsilons of twins"],
    ),
    "canaries": (["--count", "10"], ["seed 0", "adversaries judged"]),
    "membership": (["--worlds", "8"], ["seed 0", "shadow worlds"]),
    "reconstruct": (["--method", "labels"], ["seed 0", "levels of noise"]),
}


@pytest.mark.parametrize("kind", STAGES)
def test_audits_tell_how_far_they_are(run: Path, drawn: io.StringIO, kind: str) -> None:
    options, stages = STAGES[kind]
    result = CliRunner().invoke(app, ["audit", kind, str(run), *options])
    assert result.exit_code == 0, result.output
    for stage in stages:
        assert stage in drawn.getvalue()
    assert "━" not in result.output


def test_a_quiet_audit_draws_nothing(run: Path, drawn: io.StringIO) -> None:
    assert (
        CliRunner().invoke(app, ["audit", "neighbours", str(run), *STAGES["neighbours"][0], "--quiet"]).exit_code == 0
    )
    assert drawn.getvalue() == ""


def test_accounting_and_audits_within_a_run_are_told(run: Path, drawn: io.StringIO) -> None:
    audit = ["--set", "evaluation.audit={clients: 1, twins: 2, neighbours: [noise]}"]
    result = CliRunner().invoke(app, ["run", str(run.parent / "scenario.yaml"), "--out", f"{run}-2", *audit])
    assert result.exit_code == 0, result.output
    for stage in ("seed 0", "loss", "ledger of seed 0", "epsilons of twins"):
        assert stage in drawn.getvalue()


@pytest.mark.parametrize(("options", "shown"), [([], True), (["--quiet"], False), (["--json"], False)])
def test_the_clock_tells_how_far_it_is(run: Path, drawn: io.StringIO, options: list[str], shown: bool) -> None:
    result = CliRunner().invoke(app, ["timeline", str(run.parent / "scenario.yaml"), *options])
    assert result.exit_code == 0, result.output
    assert ("seed 0" in drawn.getvalue()) is shown


def test_nothing_is_drawn_where_nobody_looks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = io.StringIO()
    monkeypatch.setattr("asyncfl.cli.progress.stderr", Console(file=drawn, force_terminal=False, width=200))
    assert CliRunner().invoke(app, ["audit", "neighbours", str(run), *STAGES["neighbours"][0]]).exit_code == 0
    assert drawn.getvalue() == ""


def test_the_bar_counts_versions_of_all_seeds_and_tells_the_last_loss_and_times(
    tiny: dict[str, Any], drawn: io.StringIO
) -> None:
    bar = ProgressBar(Scenario.read(tiny | {"seeds": [7, 3]}), quiet=False)
    (task,) = bar._progress.tasks
    assert (task.description, task.completed, task.total) == ("seed -", 0, 6)
    nothing = math.nan
    for row, completed, note in (
        ({"seed": 7, "version": 2, "time_s": 90.0, "train_loss": 0.12345, "test_loss": 9.0}, 2, "loss 0.1235  "),
        ({"seed": 3, "version": 0, "time_s": 90.0, "train_loss": nothing, "test_loss": 0.5}, 3, "loss 0.5000  "),
        ({"seed": 3, "version": 1, "time_s": 90.0, "train_loss": nothing, "test_loss": nothing}, 4, ""),
    ):
        bar(row)
        told = (task.description, task.completed, task.fields["note"])
        assert told == (f"seed {row['seed']}", completed, f"{note}virtual 1.5 min  ")
    bar.stage("twins", 1, 3)
    bar.stage("levels", 2, None)
    assert [(one.description, one.completed, one.total) for one in bar._progress.tasks[1:]] == [
        ("twins", 1, 3),
        ("levels", 2, None),
    ]
    bar.stage("twins", 3, 3)
    assert [one.description for one in bar._progress.tasks] == ["seed 3", "levels"]
