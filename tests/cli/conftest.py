"""Fixtures for the tests of commands."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml


@pytest.fixture
def file(tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a tiny scenario in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(tiny))
    return path


@pytest.fixture
def refused(program: Any) -> Callable[..., str]:
    """Calls `asyncfl`, which must end with status 2; returns its message on one line."""

    def call(*arguments: object) -> str:
        status, _, err = program(*arguments)
        assert status == 2
        assert "Traceback" not in err
        return " ".join(err.replace("│", " ").split())

    return call
