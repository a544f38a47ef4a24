from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from asyncfl.api import execute
from asyncfl.cli import app
from asyncfl.errors import RunError
from asyncfl.scenario import Scenario


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", *arguments])


@pytest.fixture
def run(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A run with noise."""
    return execute(Scenario.read({**tiny, "privacy": {"kind": "nbafl", "epsilon": 50}}), tmp_path / "run")


def test_a_folder_without_a_run_is_told(tmp_path: Path) -> None:
    result = call(str(tmp_path))
    assert isinstance(result.exception, RunError)
    assert "holds no run" in str(result.exception)


def test_a_run_can_be_audited(run: Path) -> None:
    result = call(str(run), "--quiet")
    assert result.exit_code == 0, result.output
