"""Locks that killed runs of the workflow left behind."""

import importlib.util
import os
import socket
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[2] / "workflow" / "unlock.py"


@pytest.fixture
def unlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, in a folder that is locked; what it calls is kept in `called`."""
    spec = importlib.util.spec_from_file_location("unlock", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / ".snakemake" / "locks").mkdir(parents=True)
    (tmp_path / ".snakemake" / "locks" / "0.input.lock").touch()
    monkeypatch.chdir(tmp_path)
    module.called = []  # type: ignore[attr-defined]
    monkeypatch.setattr(module.subprocess, "run", lambda command, check: module.called.append(command))
    return module


def test_a_lock_of_this_user_on_this_machine_is_taken_away(unlock: ModuleType) -> None:
    unlock.MACHINE.write_text(socket.gethostname())
    unlock.main()
    assert unlock.called == [["snakemake", "--unlock", "--quiet"]]


@pytest.mark.parametrize(("machine", "told"), [("node-7", "the machine node-7"), (None, "an unknown machine")])
def test_a_lock_of_another_machine_stays(unlock: ModuleType, machine: str | None, told: str) -> None:
    if machine is not None:
        unlock.MACHINE.write_text(machine)
    with pytest.raises(SystemExit, match=f"is locked by {told}; if no run is at work there any more, type snakemake"):
        unlock.main()
    assert unlock.called == []


def test_a_lock_of_another_user_stays(unlock: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    unlock.MACHINE.write_text(socket.gethostname())
    monkeypatch.setattr(unlock.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SystemExit, match=f"is locked by the user with the number {os.getuid()}"):
        unlock.main()
    assert unlock.called == []


def test_without_a_lock_nothing_happens(unlock: ModuleType, tmp_path: Path) -> None:
    (tmp_path / ".snakemake" / "locks" / "0.input.lock").unlink()
    unlock.main()
    assert unlock.called == []
