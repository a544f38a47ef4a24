"""The worked example, as a user comes by it: unit tests, then a run, from a folder that is no part of the package."""

import importlib
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario
from asyncfl.testing import check_detector, read_recording, recorded_buffers, replay_run

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("my_components.py", "my_scenario.yaml", "test_my_components.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example in a folder of its own."""
    for name in NAMES:
        shutil.copy(EXAMPLES / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def imported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the example's tests, found as pytest finds it: from its folder."""
    monkeypatch.syspath_prepend(folder)
    for name in ("my_components", "test_my_components"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("test_my_components")
    yield module
    for name in ("my_components", "test_my_components"):
        sys.modules.pop(name, None)


def asyncfl(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The installed program; -P: as with any program on the PATH, Python does not look in the working directory."""
    command = [sys.executable, "-P", "-c", "from asyncfl.cli import main; main()", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def test_the_unit_tests_of_the_example_pass(imported: ModuleType) -> None:
    tests = {name: test for name, test in inspect.getmembers(imported, inspect.isfunction) if name.startswith("test_")}
    assert len(tests) == 10
    for test in tests.values():
        test()


def test_the_example_runs_from_anywhere_and_replays(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = asyncfl("run", folder / "my_scenario.yaml", "--out", folder / "run", "--quiet", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert "all versions published" in done.stdout
    monkeypatch.syspath_prepend(folder)
    run = Run.load(folder / "run")
    assert run.scenario.defence.detector is not None
    assert run.scenario.defence.detector.kind == "my_components:OppositeDirection"
    assert run.rounds["true_positives"].sum() > 0
    assert replay_run(folder / "run").unchecked == ()
    buffers = list(recorded_buffers(read_recording(folder / "run")))
    assert [buffer.version for buffer in buffers] == list(range(12))
    # A run is read from the folder where the modules are.
    assert asyncfl("trace", "events", folder / "run", "--count", cwd=folder).returncode == 0
    sys.modules.pop("my_components", None)


def test_the_digest_of_a_scenario_follows_the_code_of_its_components(folder: Path, imported: ModuleType) -> None:
    scenario = Scenario.load(folder / "my_scenario.yaml")
    before = scenario.digest()
    assert scenario.digest() == before
    code = folder / "my_components.py"
    code.write_text(code.read_text().replace("lifetime: Annotated[int, Field(ge=1)] = 10", "lifetime: int = 9"))
    assert scenario.digest() != before, "another component under the same name makes another run"
    check_detector(scenario.defence.detector)


def test_a_missing_module_is_one_message(folder: Path) -> None:
    (folder / "my_components.py").unlink()
    done = asyncfl("run", folder / "my_scenario.yaml", cwd=folder)
    assert done.returncode == 2
    assert "protocol.staleness: cannot import 'my_components': No module named 'my_components'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_beside_a_scenario_does_not_shadow_an_installed_module(folder: Path) -> None:
    (folder / "yaml.py").write_text("raise RuntimeError('this is not the yaml you are looking for')")
    plain = yaml.safe_load((folder / "my_scenario.yaml").read_text())
    plain["protocol"]["rounds"] = 0
    (folder / "my_scenario.yaml").write_text(yaml.safe_dump(plain))
    done = asyncfl("run", folder / "my_scenario.yaml", cwd=folder)
    assert done.returncode == 2
    assert "protocol.rounds: must be greater than or equal to 1" in done.stderr
