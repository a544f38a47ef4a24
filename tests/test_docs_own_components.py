"""The guides to components of one's own do what they say: their classes and their scenarios run."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from asyncfl import Run, simulate
from asyncfl.base.files.yaml_text import read_text
from asyncfl.data import DataSpec
from asyncfl.scenario import Scenario

DOCS = Path(__file__).parents[1] / "docs"


def _run(page: str, module: str, folder: Path, more: str = "") -> Run:
    """The first scenario of a page at two versions, with the classes of the page in a module of the user's own."""
    text = (DOCS / page).read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    scenarios = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    (folder / f"{module}.py").write_text("\n".join(code), encoding="utf-8")
    description = read_text(scenarios[0])
    if more:
        description |= read_text(next(one for one in scenarios if more in one))
    scenario = Scenario.read(description)
    return simulate(scenario.override({"protocol.rounds": 2, "data.samples_per_client": 10}))


@pytest.fixture(autouse=True)
def _importable(tmp_path: Path, no_own_module_stays: None) -> None:
    sys.path.insert(0, str(tmp_path))


def test_an_attack_of_ones_own(tmp_path: Path) -> None:
    run = _run("own-attack.md", "my_attacks", tmp_path)
    assert run.clients["malicious_uploads"].sum() > 0


def test_local_training_of_ones_own(tmp_path: Path) -> None:
    plain = _run("training.md", "my_training", tmp_path)
    assert np.isfinite(plain.rounds["train_loss"]).all()
    own = _run("training.md", "my_training", tmp_path, more="my_training:Averaged")
    assert np.isfinite(own.rounds["train_loss"]).all()


def test_a_rule_of_ones_own(tmp_path: Path) -> None:
    run = _run("own-defence.md", "my_rules", tmp_path)
    assert run.rounds["participants"].iloc[1:].tolist() == [10, 10]


def test_a_detector_of_ones_own(tmp_path: Path) -> None:
    run = _run("own-defence.md", "my_rules", tmp_path, more="my_rules:Longest")
    assert (run.rounds["detector_longest"].iloc[1:] > 0).all()


def test_a_privacy_scheme_of_ones_own(tmp_path: Path) -> None:
    run = _run("own-privacy.md", "my_privacy", tmp_path)
    held = run.ledger.query("holder == 'client' and adversary == 'server'")
    assert held["provable"].max() < 50
    assert held["measured"].max() <= held["provable"].max()


PAGE = (DOCS / "own-data.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
YAML = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with the classes of the page, outside of the working directory."""
    place = tmp_path / "mine"
    place.mkdir()
    (place / "my_data.py").write_text("\n".join(CODE), encoding="utf-8")
    (place / "rings.yaml").write_text(YAML[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return place


def test_the_ten_lines_run(folder: Path, program: Any) -> None:
    status, out, _ = program("run", folder / "rings.yaml", "--out", folder / "run", "--quiet")
    assert status == 0
    assert "data: my_data:Rings (4000 + 1000 samples)" in out
    assert len(CODE[0].strip().splitlines()) <= 11


def test_every_file_of_the_page_is_a_data_set() -> None:
    for line in YAML[1].splitlines():
        DataSpec.model_validate(yaml.safe_load(line)["data"])


def test_a_file_beside_the_scenario_is_found_and_its_faults_named(folder: Path, program: Any) -> None:
    x = np.zeros((50, 3))
    x[[17, 20, 21, 30]] = np.nan
    np.savez(folder / "sensors.npz", x_train=x, y_train=np.arange(50) % 2)
    text = YAML[0].replace('{kind: "my_data:Rings", radius: 1.0}', "{kind: npz, path: sensors.npz}")
    (folder / "npz.yaml").write_text(text, encoding="utf-8")
    status, _, err = program("run", folder / "npz.yaml", "--out", folder / "run")
    assert status == 2
    assert " ".join(err.split()).endswith(
        "sensors.npz: x_train: must be finite numbers, got nan in sample 17 (and 3 more samples)"
    )
