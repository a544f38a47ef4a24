"""Finished runs are read where the data and files that they were made from are gone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from asyncfl import Run
from asyncfl.data.download import downloads_refused


@pytest.fixture
def run_without_files(tmp_path: Path, tiny: dict[str, Any], program: Any) -> Path:
    """A run of data, devices and a first model in files that were removed afterwards."""
    random = np.random.default_rng(0)
    arrays = {f"x_{split}": random.normal(size=(n, 6)).astype(np.float32) for split, n in (("train", 60), ("test", 20))}
    arrays |= {f"y_{split}": random.integers(0, 3, n) for split, n in (("train", 60), ("test", 20))}
    np.savez(tmp_path / "mine.npz", **arrays)
    (tmp_path / "devices.csv").write_text("seconds\n0.01\n0.02\n")
    described = tiny | {
        "data": {"dataset": {"kind": "npz", "path": "mine.npz"}, "clients": 5, "samples_per_client": 10},
        "evaluation": {"keep": "last"},
    }
    described["world"]["device"] = {"kind": "csv", "path": "devices.csv", "column": "seconds"}
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(described))
    status, _, told = program("run", tmp_path / "scenario.yaml", "--out", tmp_path / "run")
    assert status == 0, told
    for name in ("mine.npz", "devices.csv", "scenario.yaml"):
        (tmp_path / name).unlink()
    return tmp_path / "run"


@pytest.mark.parametrize(
    "command",
    [
        ("view", "{run}", "--out", "{there}/page.html"),
        ("trace", "table", "{run}"),
        ("compare", "{run}", "{run}"),
        ("export", "{run}", "{there}/model.safetensors"),
    ],
)
def test_commands_that_read_a_run_need_none_of_its_files(
    run_without_files: Path, tmp_path: Path, program: Any, command: tuple[str, ...]
) -> None:
    arguments = [part.format(run=run_without_files, there=tmp_path) for part in command]
    status, _, told = program(*arguments)
    assert (status, told) == (0, "")


def test_a_world_is_fitted_without_the_data_and_says_that_it_was_not_checked(
    run_without_files: Path, tmp_path: Path, program: Any
) -> None:
    status, told, _ = program("calibrate", run_without_files, "--out", tmp_path / "world.yaml", "--checks", "2")
    assert status == 0
    assert "the fit is not checked, as that needs the data of the run" in " ".join(told.split())
    assert (tmp_path / "world.yaml").is_file()


def test_a_run_of_a_named_data_set_is_read_without_it_and_downloads_nothing(
    run_without_files: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ASYNCFL_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nothing"))
    file = run_without_files / "scenario.yaml"
    described = yaml.safe_load(file.read_text())
    described["data"] |= {"dataset": "adult", "source": "real"}
    file.write_text(yaml.safe_dump(described))
    (run_without_files / ".asyncfl.json").unlink()  # the mark would tell that the file was edited
    with downloads_refused():
        assert Run.load(run_without_files).scenario.data.dataset == "adult"


def test_a_kept_model_is_built_without_the_data(run_without_files: Path) -> None:
    sizes = [tuple(tensor.shape) for tensor in Run.load(run_without_files).model().parameters()]
    assert sizes == [(8, 6), (8,), (3, 8), (3,)]


@pytest.mark.parametrize("command", [("replay",), ("audit", "neighbours"), ("audit", "membership")])
def test_code_of_others_in_the_folder_of_a_run_is_not_run_unasked(
    tmp_path: Path, tiny: dict[str, Any], program: Any, command: tuple[str, ...], no_own_module_stays: None
) -> None:
    code = (
        "from pathlib import Path\n"
        "from asyncfl.defences import Rule\n"
        "Path(__file__).with_name('was-run').touch()\n"
        "class Mean(Rule):\n"
        "    kind: str = 'my_rule:Mean'\n"
        "    def aggregate(self, updates, weights):\n"
        "        return weights @ updates / weights.sum()\n"
    )
    (tmp_path / "my_rule.py").write_text(code)
    described = tiny | {"defence": {"rule": {"kind": "my_rule:Mean"}}, "evaluation": {"record": "digests"}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(described))
    run = tmp_path / "run"
    assert program("run", tmp_path / "s.yaml", "--out", run)[0] == 0
    (run / "my_rule.py").write_text(code)
    status, _, told = program(*command, run)
    assert status == 2
    assert "names code that is not part of asyncfl, and repeating the run would execute it" in told
    assert not (run / "was-run").exists()
