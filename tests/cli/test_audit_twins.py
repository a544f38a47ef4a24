"""`asyncfl audit RUN`: twins, on the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from asyncfl.api import execute
from asyncfl.cli import app
from asyncfl.errors import RunError, ScenarioError
from asyncfl.scenario import Scenario


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", *arguments], env={"COLUMNS": "80"})


@pytest.fixture
def run(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A run with noise."""
    return execute(Scenario.read({**tiny, "privacy": {"kind": "nbafl", "epsilon": 500}}), tmp_path / "run")


def test_clients_and_kinds_are_chosen(run: Path) -> None:
    result = call(str(run), "--clients", "0,3", "--neighbours", "noise,zeroed", "--twins", "4", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.output)["rows"]
    assert {row["client"] for row in rows if row["holder"] == "client"} == {0, 3}
    assert all(row["measured"] > 0 for row in rows)
    one = call(str(run), "--clients", "2,", "--neighbours", "sample", "--twins", "5", "--quiet")
    said = " ".join(one.output.split())
    assert "rows of the ledger are measured" in said
    assert "measured: epsilon is at least so much, given the models that the clients' tasks began from" in said


def test_what_is_printed_stays_within_the_terminal(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = io.StringIO()
    monkeypatch.setattr("asyncfl.cli.output.console", Console(file=drawn, width=80))
    assert call(str(run), "--twins", "7", "--quiet").exit_code == 0
    lines = drawn.getvalue().splitlines()
    assert any("measured" in line for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--clients", "some"], "--clients: must be a number, or numbers with commas (0,3,7), got 'some'"),
        (["--clients", ","], "--clients: must be a number, or numbers with commas"),
        (["--clients", "0"], "--clients: must be greater than or equal to 1, or must be a list, got 0"),
        (["--clients", "6"], "--clients: must be at most data.clients (5), got 6"),
        (["--clients", "4,5"], "--clients: must be 0..4 (data.clients is 5), got 5"),
        (["--clients", "2,2"], "--clients: must name at least one, each once, got [2, 2]"),
        (["--neighbours", "darkest"], "--neighbours: must be 'ordinary', 'mislabelled'"),
        (["--neighbours", ","], "--neighbours: must"),
    ],
)
def test_options_that_cannot_be(run: Path, options: list[str], said: str) -> None:
    before = sorted(path.name for path in run.iterdir())
    result = call(str(run), *options, "--quiet")
    assert isinstance(result.exception, ScenarioError)
    assert said in str(result.exception)
    assert sorted(path.name for path in run.iterdir()) == before


def test_no_twins(run: Path) -> None:
    result = call(str(run), "--twins", "0")
    assert result.exit_code == 2
    assert "--twins" in result.output


def test_a_diverged_seed_is_told(tmp_path: Path, tiny: dict[str, Any]) -> None:
    overwhelmed = {"kind": "nbafl", "epsilon": 1e-38, "clip_norm": 20}
    wild = execute(Scenario.read({**tiny, "privacy": overwhelmed}), tmp_path / "wild")
    result = call(str(wild), "--quiet")
    assert isinstance(result.exception, RunError)
    assert "seed 0 has diverged" in str(result.exception)
