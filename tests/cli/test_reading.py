"""Commands that only read a run import no code of the user's own, and stop with one message where they cannot go on."""

import os
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from asyncfl.api import execute
from asyncfl.base.component import Choice
from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.base.own_classes import look_for_modules_in
from asyncfl.cli import app
from asyncfl.defences import Defence
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario

PATH = os.pathsep.join(filter(None, sys.path))
"""Without the folder of the run, which reading it in this process may add."""
COMPONENTS = """
import pathlib
pathlib.Path(__file__).with_name("imported").touch()
import torch
from asyncfl.defences.median import Median

class Mine(Median):
    kind: str

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(784, 10)

    def forward(self, images):
        return self.last(images.flatten(1))
"""


def asyncfl(*arguments: str, cwd: Path, shell: str = "") -> subprocess.CompletedProcess[str]:
    return python("from asyncfl.cli import main; main()", *arguments, cwd=cwd, shell=shell)


def python(code: str, *arguments: str, cwd: Path, shell: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": PATH}
    command = [sys.executable, "-P", "-c", code, *arguments]
    if shell:
        command = ["bash", "-c", shell, *command]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def downloaded(tmp_path: Path) -> Path:
    """A folder with a run whose rule and network are code of its maker's own, which lies beside it and inside."""
    (tmp_path / "mine_to_read.py").write_text(COMPONENTS)
    scenario: dict[str, Any] = {
        "data": {"clients": 3, "samples_per_client": 20, "source": "embedded", "test_samples": 20},
        "model": {"kind": "mine_to_read:Net"},
        "protocol": {"kind": "sync", "rounds": 4},
        "defence": {"rule": {"kind": "mine_to_read:Mine"}},
        "evaluation": {"keep": "last"},
    }
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    look_for_modules_in(tmp_path)
    execute(Scenario.load(tmp_path / "scenario.yaml"), tmp_path / "run")
    (tmp_path / "run" / "mine_to_read.py").write_text(COMPONENTS)
    (tmp_path / "imported").unlink()
    return tmp_path


READS = [
    (["compare", "run", "run"], 0),
    (["view", "run", "--out", "page.html"], 0),
    (["trace", "diff", "run", "run"], 0),
    (["ledger", "run"], 0),
    (["ledger", "run", "--client", "0"], 0),
    (["calibrate", "run", "--force"], 0),
    (["export", "run", "net.pt"], 2),
]
"""Commands that read a run, and their status."""


def test_commands_that_read_import_nothing_unless_it_is_allowed(downloaded: Path) -> None:
    code = f"""
import sys
from asyncfl.cli import main
for sys.argv[1:], status in {READS}:
    try:
        main()
    except SystemExit as ended:
        assert (ended.code or 0) == status, (sys.argv, ended.code)
"""
    result = python(code, cwd=downloaded)
    assert result.returncode == 0, result.stderr
    assert result.stderr == (
        "asyncfl: the network or the data are code of your own, which is not imported; export with --own-code\n"
    )
    assert (downloaded / "page.html").exists()
    assert not list(downloaded.rglob("imported"))
    assert asyncfl("export", "run", "net.pt", "--own-code", cwd=downloaded).returncode == 0
    assert list(downloaded.rglob("imported"))


@pytest.mark.parametrize(
    ("shell", "status", "message"),
    [
        ('"$0" "$@" > /dev/full', 2, "asyncfl: cannot write to standard output: No space left on device\n"),
        ('"$0" "$@" >&-', 0, ""),
        ('mkdir gone && cd gone && rmdir ../gone && "$0" "$@"', 0, ""),
        ('ln -s loop loop && "$0" "${@:1:3}" view loop', 2, "asyncfl: loop/summary.json cannot be read as JSON: "),
    ],
    ids=["full disk", "closed", "removed folder", "loop"],
)
def test_what_the_system_refuses_is_no_traceback(tmp_path: Path, shell: str, status: int, message: str) -> None:
    result = asyncfl("schema", cwd=tmp_path, shell=shell)
    assert result.returncode == status, result.stderr
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == bool(message)


def test_a_folder_whose_name_is_no_utf_8_is_written_and_read(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    data = {"dataset": "mnist", "clients": 3, "samples_per_client": 10, "source": "embedded", "test_samples": 10}
    protocol = {"kind": "sync", "rounds": 1}
    scenario = Scenario.read({"data": data, "model": {"kind": "mlp", "hidden": [2]}, "protocol": protocol})
    execute(scenario, folder)
    assert Run.load(folder).rounds["version"].tolist() == [0, 1]
    assert asyncfl("view", str(folder), "--out", "page.html", cwd=tmp_path).returncode == 0
    assert "(caf\ufffd)" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.fixture
def of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose detector was removed from the program since."""
    scenario = {
        "data": {"clients": 4, "samples_per_client": 20, "source": "embedded", "test_samples": 20},
        "protocol": {"kind": "sync", "rounds": 3},
        "defence": {"detector": {"kind": "async_filter"}},
    }
    execute(Scenario.read(scenario), tmp_path / "run")
    detectors = Defence.model_fields["detector"]
    chosen = next(part for part in typing.get_args(detectors.annotation) if part is not type(None))
    offered = next(mark for mark in (*detectors.metadata, *chosen.__metadata__) if isinstance(mark, Choice))
    monkeypatch.delitem(offered.kinds, "async_filter")
    monkeypatch.setattr(offered, "removed", {"async_filter": "it was wrong; take evidence"})
    return tmp_path / "run"


def test_a_run_whose_detector_was_removed_is_read_but_not_repeated(of_before: Path) -> None:
    refused = "defence.detector: kind async_filter was removed: it was wrong; take evidence"
    with pytest.raises(ScenarioError, match=refused):
        Scenario.load(of_before / "scenario.yaml")
    run = Run.load(of_before)
    assert run.description["defence"]["detector"]["kind"] == "async_filter"
    assert run.scenario.protocol.rounds == 3
    with pytest.raises(RunError, match=r"needs kind async_filter, which .* was removed"):
        _ = run.scenario.defence.rules
    folder = str(of_before)
    for command in (["compare", folder, folder], ["ledger", folder], ["trace", "diff", folder, folder]):
        assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
    with pytest.raises(RunError, match="can be read, but not repeated: its scenario names kind async_filter"):
        CliRunner().invoke(app, ["replay", folder], catch_exceptions=False)
