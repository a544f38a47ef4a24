"""`asyncfl audit neighbours`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from asyncfl.api import execute
from asyncfl.cli.audit_neighbours import print_measured
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


LEDGER = pd.DataFrame(
    {
        "seed": [0, 0, 1, 2],
        "holder": "client",
        "client": [3, 4, 3, 3],
        "adversary": "server",
        "status": "proven",
        "claimed_epsilon": [5.0, 5.0, 6.0, 7.0],
        "provable": [4.0, 4.0, 4.5, 4.75],
        "measured": [0.5, np.nan, 0.25, 0.125],
        "delta": 1e-5,
    }
)


@pytest.mark.parametrize(
    ("seeds", "rows", "sentence"), [((0,), ["0"], "1 row of the ledger is"), ((0, 1), ["0", "1"], "2 rows of the")]
)
def test_measured_rows_of_the_audited_seeds_are_printed(
    seeds: tuple[int, ...], rows: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    audited: Any = SimpleNamespace(ledger=LEDGER, summary={"notes": ["audit: of some", "another note"]})
    print_measured(Path("run"), audited, ["an older audit is replaced"], seeds, False)
    head, *lines = capsys.readouterr().out.splitlines()
    assert "claimed epsilon" in head
    table = [line.split() for line in lines[: len(rows)]]
    assert table[0] == ["0", "client", "3", "server", "proven", "5", "4", "0.5", "1e-05"]
    assert [line[0] for line in table] == rows
    after = " ".join(lines[len(rows) :])
    assert "audit: of some an older audit is replaced" in after
    assert "another note" not in after
    assert sentence in after
    print_measured(Path("run"), audited, ["old"], seeds, True)
    found = json.loads(capsys.readouterr().out)
    assert (found["run"], found["replaced"], [one["seed"] for one in found["rows"]]) == ("run", ["old"], list(seeds))
    assert (found["rows"][0]["measured"], found["rows"][0]["claimed_epsilon"]) == (0.5, 5.0)
