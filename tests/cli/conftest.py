"""Fixtures for the tests of commands."""

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
