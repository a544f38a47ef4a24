"""`asyncfl audit neighbours`."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from asyncfl.api import execute
from asyncfl.scenario import Scenario


@pytest.fixture
def run(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A run with noise, of five clients."""
    return execute(Scenario.read({**tiny, "privacy": {"kind": "nbafl", "epsilon": 500}}), tmp_path / "run")


def test_clients_and_kinds_of_neighbours_are_chosen(program: Any, run: Path) -> None:
    options = ("--clients", "0,3", "--neighbours", "noise,zeroed", "--twins", 4)
    status, out, _ = program("audit", "neighbours", run, *options, "--json")
    assert status == 0
    rows = json.loads(out)["rows"]
    assert {row["client"] for row in rows if row["holder"] == "client"} == {0, 3}
    assert all(row["measured"] > 0 for row in rows)
    status, out, _ = program("audit", "neighbours", run, "--clients", "2,", "--neighbours", "sample", "--twins", 5)
    assert status == 0
    assert "rows of the ledger are measured" in out
    assert "replaced" in out  # the first audit's results


def test_the_table_fits_80_columns(program: Any, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = io.StringIO()
    monkeypatch.setattr("asyncfl.cli.output.console", Console(file=drawn, width=80))
    assert program("audit", "neighbours", run, "--twins", 7, "--quiet")[0] == 0
    lines = drawn.getvalue().splitlines()
    assert any("measured" in line for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--clients", "some"], "--clients: must be a number, or numbers with commas (0,3,7), got 'some'"),
        (["--clients", ","], "--clients: must be a number, or numbers with commas"),
        (["--clients", "0"], "--clients: must be greater than or equal to 1, or must be a list, got 0"),
        (["--clients", "6"], "--clients: must be at most data.clients (5), got 6"),
        (["--clients", "4,5"], "--clients: must be 0..4 (data.clients is 5), got 5"),
        (["--clients", "2,2"], "--clients: must name at least one, each once, got [2, 2]"),
        (["--neighbours", "darkest"], "--neighbours: must be 'ordinary', 'mislabelled'"),
        (["--neighbours", ","], "--neighbours: must"),
        (["--twins", "0"], "'--twins': Input should be greater than or equal to 1"),
    ],
)
def test_wrong_options_are_named_and_nothing_is_written(
    program: Any, run: Path, options: list[str], message: str
) -> None:
    before = sorted(path.name for path in run.iterdir())
    status, _, err = program("audit", "neighbours", run, *options, "--quiet")
    assert status == 2
    assert message in " ".join(err.split())
    assert sorted(path.name for path in run.iterdir()) == before


def test_folders_without_a_run_and_diverged_seeds_are_refused(
    program: Any, tmp_path: Path, tiny: dict[str, Any]
) -> None:
    status, _, err = program("audit", "neighbours", tmp_path)
    assert (status, "holds no run" in err) == (2, True)
    overwhelmed = {"kind": "nbafl", "epsilon": 1e-38, "clip_norm": 20}
    wild = execute(Scenario.read({**tiny, "privacy": overwhelmed}), tmp_path / "wild")
    status, _, err = program("audit", "neighbours", wild, "--quiet")
    assert (status, "seed 0 has diverged" in err) == (2, True)
