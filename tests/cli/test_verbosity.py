"""What `-v` and `-vv` add, on standard error, and that nothing is added without them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from asyncfl.cli import app, main
from asyncfl.cli.verbosity import move_verbose_first


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    log = logging.getLogger("asyncfl")
    before = log.level, log.handlers
    yield
    log.setLevel(before[0])
    log.handlers = before[1]


@pytest.fixture
def described(tiny: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(tiny | {"seeds": [3, 4]}))
    return path


def logged(*arguments: object) -> list[str]:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
    return [line.partition(" ")[2] for line in result.stderr.splitlines()]


def test_a_run_tells_what_it_does(described: Path, tmp_path: Path) -> None:
    run = ["run", described, "--out", tmp_path / "run", "--quiet"]
    lines = logged("-v", *run)
    begun, ended, *_, written = lines
    assert begun.startswith("asyncfl.simulation.run: seed 3: 5 clients hold 100 samples of ")
    assert begun.endswith("tested on 50; MlpLearner on cpu trains 6370 parameters, products by default")
    assert ended.startswith(
        "asyncfl.simulation.run: seed 3: all versions published after 3 versions, 15 tasks trained; "
    )
    assert written == f"asyncfl.api: {tmp_path / 'run'} written"
    assert len(lines) == 5
    assert logged("-v", *run) == [f"asyncfl.api: {tmp_path / 'run'} holds the run already"]


def test_twice_tells_each_version(described: Path, tmp_path: Path) -> None:
    lines = logged("-vv", "run", described, "--out", tmp_path / "run", "--quiet")
    versions = [line for line in lines if line.startswith("asyncfl.federation.round_recorder: seed 4: version ")]
    assert len(versions) == 4
    assert versions[0].startswith(
        "asyncfl.federation.round_recorder: seed 4: version 0 at 0 s of 0 updates, train loss 2."
    )


def test_without_it_nothing_is_told(described: Path, tmp_path: Path) -> None:
    assert logged("run", described, "--out", tmp_path / "run", "--quiet") == []


def test_it_may_stand_anywhere(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert move_verbose_first(["run", "a.yaml", "-v", "--quiet"]) == ["-v", "run", "a.yaml", "--quiet"]
    assert move_verbose_first(["run", "-vv", "--", "-v"]) == ["-vv", "run", "--", "-v"]
    assert move_verbose_first(["run", "a.yaml", "-vvv"]) == ["-vvv", "run", "a.yaml"]
    monkeypatch.setattr("sys.argv", ["asyncfl", "schema", "--verbose"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert logging.getLogger("asyncfl").level == logging.INFO


def test_a_run_tells_how_long_it_took_or_that_it_was_there(
    described: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter([100.0, 102.54, 200.0, 201.0])
    monkeypatch.setattr("asyncfl.cli.run.time", SimpleNamespace(monotonic=lambda: next(seconds)))
    last = [
        CliRunner().invoke(app, ["run", str(described), "--out", str(tmp_path / "run")]).output.splitlines()[-1]
        for _ in range(2)
    ]
    assert last == [f"{tmp_path / 'run'} written in 2.5 s", f"{tmp_path / 'run'} exists already"]
