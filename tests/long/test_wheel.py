"""The wheel holds all that `asyncfl init`, `run` and `view` need, in an environment with nothing else in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("asyncfl", "snakemake_logger_plugin_asyncfl", "pyproject.toml", "setup.py", "README.md", "LICENSE")

pytestmark = pytest.mark.long


def call(*command: object, cwd: Path) -> str:
    """Output of a command that succeeds. The package of this checkout is out of its reach."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd)}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_wheel_in_an_empty_environment_runs_the_first_minute(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in SOURCES:
        found = ROOT / name
        if found.is_dir():
            shutil.copytree(found, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(found, source)
    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, source, cwd=tmp_path)
    (wheel,) = tmp_path.glob("asyncfl-*.whl")
    call(sys.executable, "-m", "venv", tmp_path / "empty", cwd=tmp_path)
    python = tmp_path / "empty" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt"]
    call(*install, wheel, cwd=tmp_path)

    asyncfl = tmp_path / "empty" / "bin" / "asyncfl"
    place = tmp_path / "work"
    place.mkdir()
    call(asyncfl, "init", "scenario.yaml", cwd=place)
    call(asyncfl, "run", "scenario.yaml", "--out", "run", cwd=place)
    call(asyncfl, "view", "run", cwd=place)
    (page,) = place.rglob("*.html")
    assert "<html" in page.read_text(encoding="utf-8")
    assert (place / "run" / "rounds.parquet").is_file()
