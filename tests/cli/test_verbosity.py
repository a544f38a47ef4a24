"""`-v` and `-vv`: log messages on standard error."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncfl.cli import move_verbose_first


@pytest.fixture(autouse=True)
def restore_log() -> Iterator[None]:
    log = logging.getLogger("asyncfl")
    before = log.level, log.handlers
    yield
    log.setLevel(before[0])
    log.handlers = before[1]


@pytest.fixture
def logged(program: Any, file: Path, capsys: Any) -> Any:
    """Runs the scenario with options; returns the logged lines without their times."""

    def call(*options: str) -> list[str]:
        status, _, err = program("run", file, "--out", "run", "--quiet", "--set", "seeds=[3, 4]", *options)
        assert status == 0
        return [line.partition(" ")[2] for line in err.splitlines()]

    return call


def test_once_logs_the_steps_of_a_run(logged: Any) -> None:
    begun, ended, *_, written = logged("-v")
    assert "seed 3: 5 clients hold 100 samples of " in begun
    assert "trains 6370 parameters" in begun
    assert "seed 3: all versions published after 3 versions, 15 tasks trained" in ended
    assert written == "asyncfl.api: run written"
    assert logged("-v") == ["asyncfl.api: run holds the run already"]


def test_twice_logs_each_version(logged: Any) -> None:
    versions = [line for line in logged("-vv") if ": seed 4: version " in line]
    assert len(versions) == 4
    assert ": seed 4: version 0 at 0 s of 0 updates, train loss 2." in versions[0]


def test_nothing_is_logged_without_it(logged: Any) -> None:
    assert logged() == []


def test_verbose_may_stand_anywhere_on_the_command_line(program: Any) -> None:
    assert move_verbose_first(["run", "a.yaml", "-v", "--quiet"]) == ["-v", "run", "a.yaml", "--quiet"]
    assert move_verbose_first(["run", "-vv", "--", "-v"]) == ["-vv", "run", "--", "-v"]
    assert program("schema", "--verbose")[0] == 0
    assert logging.getLogger("asyncfl").level == logging.INFO
