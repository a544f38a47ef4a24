"""The page on data of one's own does what it says: its ten lines run, its files are read, its messages come."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from asyncfl.data import DataSpec

PAGE = (Path(__file__).parents[1] / "docs" / "own-data.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
YAML = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder with the classes of the page, outside of the working directory."""
    before, place = set(sys.modules), tmp_path / "mine"
    place.mkdir()
    (place / "my_data.py").write_text("\n".join(CODE), encoding="utf-8")
    (place / "rings.yaml").write_text(YAML[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("asyncfl.base.own_classes._beside", {})
    yield place
    for name in set(sys.modules) - before:
        sys.modules.pop(name)


@pytest.fixture
def run(program: Any) -> Any:
    """Calls the program: status, what it printed, and its message of an error on one line."""

    def call(*arguments: object) -> tuple[object, str, str]:
        status, out, err = program(*arguments)
        return status, out, " ".join(err.split())

    return call


def test_the_ten_lines_run(folder: Path, run: Any) -> None:
    status, out, _ = run("run", folder / "rings.yaml", "--out", folder / "run", "--quiet")
    assert status == 0
    assert "data: my_data:Rings (4000 + 1000 samples)" in out
    assert len(CODE[0].strip().splitlines()) <= 11


def test_every_file_of_the_page_is_a_data_set() -> None:
    for line in YAML[1].splitlines():
        DataSpec.model_validate(yaml.safe_load(line)["data"])


def test_a_file_beside_the_scenario_is_found_and_its_faults_named(folder: Path, run: Any) -> None:
    x = np.zeros((50, 3))
    x[[17, 20, 21, 30]] = np.nan
    np.savez(folder / "sensors.npz", x_train=x, y_train=np.arange(50) % 2)
    text = YAML[0].replace('{kind: "my_data:Rings", radius: 1.0}', "{kind: npz, path: sensors.npz}")
    (folder / "npz.yaml").write_text(text, encoding="utf-8")
    status, _, err = run("run", folder / "npz.yaml", "--out", folder / "run")
    assert status == 2
    assert err.endswith("sensors.npz: x_train: must be finite numbers, got nan in sample 17 (and 3 more samples)")
