"""What `asyncfl run --out` does to the user's disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from asyncfl import api as api_module
from asyncfl.scenario import Scenario
from asyncfl.storage import Run


@pytest.fixture
def run(tiny: dict[str, Any], tmp_path: Path, program: Any) -> Any:
    """Calls `asyncfl run` on the tiny scenario; returns its status and all that it printed."""
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(tiny))

    def call(*arguments: object) -> tuple[object, str]:
        status, out, err = program("run", path, "--quiet", *arguments)
        return status, out + err

    return call


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "one_seed", lambda *arguments: pytest.fail("trained before it was refused"))


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_folder_of_the_users_own_is_refused_before_anything_is_computed(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: tuple[str, ...]
) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "thesis.tex").write_text("precious")
    monkeypatch.chdir(folder)
    for out in (folder, ".", "../d"):
        status, said = run("--out", out, *force)
        assert status == 2
        assert f"cannot write {out}: it was not made by this program and is not empty (it holds thesis.tex)" in said
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"thesis.tex": "precious"}


@pytest.mark.usefixtures("no_training")
def test_where_nothing_can_be_written_nothing_is_computed(run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for out in (tmp_path / "file", tmp_path / "file" / "r", "/proc/asyncfl/r", "/dev/null"):
        status, said = run("--out", out)
        assert (status, "cannot write" in said, "Traceback" in said) == (2, True, False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "scenario.yaml"]


def test_a_run_of_another_scenario_is_seen(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "r"
    assert run("--out", out)[0] == 0
    (out / "thesis.tex").write_text("precious")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    other = ("--out", out, "--set", "protocol.rounds=2", "--set", "privacy={kind: nbafl, epsilon: 60}")
    status, said = run(*other)
    assert status == 2
    assert "it holds a run of another scenario (protocol.rounds is 3 there and 2 here; " in said
    assert 'privacy.kind is "none" there and "nbafl" here)' in said
    assert "name another folder, or replace what is there with force (--force)" in said
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    status, said = run(*other, "--force")
    assert status == 0, said
    assert "written in" in said
    assert Run.load(out).rounds["version"].max() == 2
    assert (out / "thesis.tex").read_text() == "precious"
    assert "exists already" in run(*other)[1]


def test_nothing_is_written_beside_the_folder_and_nothing_stays_in_it(run: Any, tmp_path: Path) -> None:
    assert run("--out", tmp_path / "a" / "b" / "r", "--set", "seeds=2")[0] == 0
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["r"]
    assert not (tmp_path / "a" / "b" / "r" / ".partial").exists()


def test_force_computes_the_same_run_again(run: Any, tmp_path: Path) -> None:
    run("--out", tmp_path / "r")
    (tmp_path / "r" / "rounds.parquet").unlink()
    status, said = run("--out", tmp_path / "r")
    assert (status, "written in" in said) == (0, True), "a run that lacks a table is no whole one"
    assert "written in" in run("--out", tmp_path / "r", "--force")[1]


def test_an_interrupted_run_of_another_scenario_is_seen_too(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = api_module.one_seed

    def interrupted(description: Scenario, seed: int, progress: Any, *more: Any) -> Run:
        if seed == 1:
            raise KeyboardInterrupt
        return original(description, seed, progress, *more)

    with monkeypatch.context() as patched:
        patched.setattr(api_module, "one_seed", interrupted)
        status, said = run("--out", tmp_path / "r", "--set", "seeds=2")
        assert (status, "interrupted; 1 of 2 seeds are kept; repeat the command" in said) == (130, True)
    status, said = run("--out", tmp_path / "r")
    assert status == 2
    assert "it holds a run of another scenario (seeds is [0, 1] there and [0] here)" in said
    assert run("--out", tmp_path / "r", "--set", "seeds=2")[0] == 0


def test_a_failure_leaves_no_folder(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "write_to", lambda self, folder: (_ for _ in ()).throw(OSError(28, "No space left")))
    status, said = run("--out", tmp_path / "new" / "r")
    assert (status, "new/r: No space left" in said) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["scenario.yaml"]
